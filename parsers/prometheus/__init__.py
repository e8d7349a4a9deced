"""History of metrics, by columns: what all ways in which Prometheus and its kin hand it over have in common."""
