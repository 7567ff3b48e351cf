"""The contract: the actions (16, and the four of v2), the coordinate frame, ids and tables. Imports nothing of ours."""
