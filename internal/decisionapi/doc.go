// Package decisionapi is the gRPC API of api/proto/retry/v1: it turns protobuf into the facts of
// pkg/decision, and its answers into protobuf. What was declared, the budget and the state of the
// process are handed to it.
package decisionapi
