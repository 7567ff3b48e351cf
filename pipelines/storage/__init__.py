"""What `pipelines.store` is made of: versions and parts, pictures, locks, promotion, garbage, object stores."""
