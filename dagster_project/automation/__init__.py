"""What starts by itself, and whom it tells: jobs, schedules and sensors."""
