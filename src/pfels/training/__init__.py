"""The networks and the local training of a cohort."""
