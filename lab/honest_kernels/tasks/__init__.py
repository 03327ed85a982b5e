"""Tasks of forms that the suite has not."""
