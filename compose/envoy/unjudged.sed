# The case that envoy/credential.yaml adds to those in which the filter unjudged has nothing to say.
/^- at: .*unjudged/,/^$/{
  s/^    and_matcher:/                        - and_matcher:/p
  t
  s/^    /                          /p
}
