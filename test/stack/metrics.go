package stack

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// get returns the body of an answer with status 200.
func (s *Stack) get(url string) (string, error) {
	resp, err := s.admin.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return string(body), err
}

// ServiceMetric reads a counter or a gauge of the i-th replica: the sum over the series that have the
// labels, given as NAME=VALUE; 0 where there is none yet.
func (s *Stack) ServiceMetric(i int, name string, labels ...string) float64 {
	s.t.Helper()
	text, err := s.get(s.ServiceAdminURL(i) + "/metrics")
	if err != nil {
		s.t.Fatalf("stack: replica %d: %v", i, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		s.t.Fatalf("stack: replica %d: %v", i, err)
	}
	sum := 0.0
	for _, m := range families[name].GetMetric() {
		if hasLabels(m, labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func hasLabels(m *dto.Metric, want []string) bool {
	have := map[string]bool{}
	for _, l := range m.GetLabel() {
		have[l.GetName()+"="+l.GetValue()] = true
	}
	for _, l := range want {
		if !have[l] {
			return false
		}
	}
	return true
}
