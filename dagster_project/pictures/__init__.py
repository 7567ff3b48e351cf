"""Pictures that assets show."""
