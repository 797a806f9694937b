package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verdictproxy/verdict/test/stack"
)

// grpcurl knows the API by reflection alone.
func TestAPIGrpcurl(t *testing.T) {
	t.Parallel()
	api, admin := startAPI(t)
	grpcurl := tool(t, "grpcurl")
	ask := func(succeeds bool, wants []string, address, method, data string) {
		t.Helper()
		wantOutput(t, succeeds, wants, grpcurl, "-plaintext", "-max-time", "20", "-d", data, address, method)
	}
	services := []string{"retry.v1.DecisionService", "retry.v1.BudgetService", "retry.v1.LedgerService", "grpc.health.v1.Health"}
	onAPI := wantOutput(t, true, services, grpcurl, "-plaintext", api, "list")
	if strings.Contains(onAPI, "AdminService") {
		t.Errorf("the operator's switches are on the API's listener:\n%s", onAPI)
	}
	wantOutput(t, true, append(services, "retry.v1.AdminService"), grpcurl, "-plaintext", admin, "list")
	wantOutput(t, true, []string{"rpc Decide", "rpc Explain", "rpc Classify"}, grpcurl, "-plaintext", api, "describe", "retry.v1.DecisionService")

	const facts = `"facts": {"upstream": "app", "call": {"method": "POST"}, "attempt": 1, "body": {"kind": "BODY_KIND_BYTES"}, "noDeadline": {}, "ending": {"observation": {"stage": "STAGE_%"}}}`
	refused, reset := strings.ReplaceAll(facts, "%", "CONNECT"), strings.ReplaceAll(facts, "%", "CONNECTION_RESET")
	for _, address := range []string{api, admin} {
		ask(true, []string{`"VERDICT_RETRY"`, `"grant"`}, address, "retry.v1.DecisionService/Decide", "{"+refused+"}")
		ask(true, []string{`"VERDICT_AMBIGUOUS"`, `"REASON_SENT_NO_RESPONSE"`, `"caseId"`}, address, "retry.v1.DecisionService/Decide", "{"+reset+"}")
		ask(true, []string{`"possibly_executed"`, `"status_and_failure"`}, address, "retry.v1.DecisionService/Explain", "{"+reset+"}")
		ask(true, []string{`"SERVING"`}, address, "grpc.health.v1.Health/Check", "{}")
	}
	ask(true, []string{`"EVIDENCE_NOT_SENT"`}, api, "retry.v1.DecisionService/Classify", `{"ending": {"observation": {"stage": "STAGE_DNS"}}}`)
	ask(false, []string{"InvalidArgument", `"facts.attempt"`, `"facts.delivery"`}, api, "retry.v1.DecisionService/Decide", `{"facts": {"attempt": 1000001, "delivery": 9}}`)
	ask(false, []string{"InvalidArgument", `"deposits[0].first_attempts"`}, api, "retry.v1.BudgetService/Deposit", `{"deposits": [{"upstream": "app"}]}`)
	ask(true, []string{`"REASON_SENT_NO_RESPONSE"`}, api, "retry.v1.LedgerService/List", `{"filter": {"upstream": "app", "state": "CASE_STATE_OPEN"}}`)
	ask(true, nil, admin, "retry.v1.AdminService/DrainUpstream", `{"upstream": "app"}`)
	ask(true, []string{`"REASON_RUNTIME_DRAINING"`}, api, "retry.v1.DecisionService/Decide", "{"+refused+"}")
	ask(false, []string{"Unimplemented"}, api, "retry.v1.AdminService/UndrainUpstream", `{"upstream": "app"}`)
}

// A Python program with generated code decides a table.
func TestAPIPython(t *testing.T) {
	t.Parallel()
	api, _ := startAPI(t)
	python := tool(t, "python", "bin", "python")
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	imports, generated := t.TempDir(), t.TempDir()
	wantOutput(t, true, nil, "go", "run", "github.com/verdictproxy/verdict/api/proto/imports", imports)
	proto := filepath.Join(root, "api", "proto")
	wantOutput(t, true, nil, python, "-m", "grpc_tools.protoc", "-I"+proto, "-I"+imports,
		"--python_out="+generated, "--grpc_python_out="+generated,
		"buf/validate/validate.proto", "retry/v1/decision.proto", "retry/v1/budget.proto")
	script, err := filepath.Abs("testdata/api/decide.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, script, api)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+generated)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "14 decided, 0 wrong") {
		t.Errorf("%v\n%s", err, out)
	}
}
