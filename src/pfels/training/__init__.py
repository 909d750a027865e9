"""Networks, and local SGD of a whole cohort."""
