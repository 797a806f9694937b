package integration

import "github.com/verdictproxy/verdict/test/stack"

var (
	fewRetries = stack.NewPatch("the cluster attempts has Envoy's circuit breakers", stack.Remove(stack.Cluster("attempts")+"/circuit_breakers"))
	fewJudges  = stack.NewPatch("the cluster verdict has Envoy's circuit breakers", stack.Remove(stack.Cluster("verdict")+"/circuit_breakers"))
)
