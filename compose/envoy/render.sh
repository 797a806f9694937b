# Prints what Envoy runs: envoy/hop.yaml as hop.sed changes it, with what envoy/credential.yaml and
# envoy/tls/cluster.yaml add. `bash render.sh FOLDER`, the folder envoy/. hop.sed reads 3 to 5.
set -euo pipefail
cd "$(dirname "$0")"
sed -E -f hop.sed "$1/hop.yaml" \
  3< <(sed -n -E -f credential.sed "$1/credential.yaml") \
  4< <(sed -n '/^transport_socket:/,$s/^/    /p' "$1/tls/cluster.yaml") \
  5< <(sed -n -E -f unjudged.sed "$1/credential.yaml")
