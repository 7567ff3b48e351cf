"""Care: requests whose plain reading does harm, their twins without risk, and a user who can be asked."""
