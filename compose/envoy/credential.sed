# The filters of envoy/credential.yaml as elements of the inner hop's list. First attempts get their
# credential from Verdict too.
/^filters:$/,/^- at: static_resources/{
  /^      xds_matcher:$/,/^            on_match:/{
    s/^      xds_matcher:$/              xds_matcher: {}/p
    d
  }
  s/^    name:/          - name:/p
  t
  s/^    /            /p
}
