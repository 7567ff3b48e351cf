"""What makes data: tasks, devices, worlds, policies, the generation loop, harvesting, and the proving wing.

Stairs, lowest first: `tasks` < `devices` < `worlds` < `policies` < `execution` < `generation` < `harvesting` <
`proving`; a folder imports only from those left of it.
"""
