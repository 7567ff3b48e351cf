"""The contract: the 16 actions, the coordinate frame, ids and tables. Imports nothing of ours."""
