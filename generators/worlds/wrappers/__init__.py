"""Wrappers of worlds: each is a `World` around another, changes only what it declares, and does so by its seed.

`defects` injects faults of the user interface, `hostile` plants what other people wrote (AgentHazard), `delay` shows
screens late. With a rate of 0 each is the identity. They nest: `Delayed(Defective(world, ...), ...)`.
"""
