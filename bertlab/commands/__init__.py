"""What each verb of the command line does. Heavy libraries load inside the functions that need them."""
