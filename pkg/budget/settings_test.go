package budget

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestNewSettings(t *testing.T) {
	for _, c := range []struct {
		ratio, perSecond float64
		interval         time.Duration
		want             Settings
		wrong            string // the fields that the error names; "" for none
	}{
		{0.2, 10, 10 * time.Second, DefaultSettings(), ""},
		{0, 0, time.Second, Settings{0, 0, time.Second, limited}, ""},
		{1, 20, time.Minute, Settings{1000, 1200, time.Minute, limited}, ""},
		{0.001, 0.1, 10 * time.Second, Settings{1, 1, 10 * time.Second, limited}, ""},
		{0.57, 0.7, 10 * time.Second, Settings{570, 7, 10 * time.Second, limited}, ""}, // 0.57*1000 and 0.7*10 are no integers in floats
		{0.29, 2.5, 2 * time.Second, Settings{290, 5, 2 * time.Second, limited}, ""},
		{0.2, 2, 1500 * time.Millisecond, Settings{200, 3, 1500 * time.Millisecond, limited}, ""},
		{0.0005, 1, time.Second, Settings{}, "ratio"},
		{0.2001, 1, time.Second, Settings{}, "ratio"},
		{1.001, 1, time.Second, Settings{}, "ratio"},
		{-0.1, 1, time.Second, Settings{}, "ratio"},
		{math.NaN(), 1, time.Second, Settings{}, "ratio"},
		{math.Inf(1), 1, time.Second, Settings{}, "ratio"},
		{math.SmallestNonzeroFloat64, 1, time.Second, Settings{}, "ratio"},
		{0.2, 0.1, time.Second, Settings{}, "min_retries_per_second"},
		{0.2, 1.0 / 3, 3 * time.Second, Settings{}, "min_retries_per_second"},
		{0.2, -1, time.Second, Settings{}, "min_retries_per_second"},
		{0.2, math.NaN(), time.Second, Settings{}, "min_retries_per_second"},
		{0.2, 1e9, time.Minute, Settings{}, "min_retries_per_second"},
		{0.2, math.MaxFloat64, time.Second, Settings{}, "min_retries_per_second"},
		{0.2, 0, 999 * time.Millisecond, Settings{}, "interval"},
		{0.2, 0, time.Minute + time.Millisecond, Settings{}, "interval"},
		{0.2, 0, time.Second + time.Microsecond, Settings{}, "interval"},
		{2, -3, 0, Settings{}, "ratio interval min_retries_per_second"},
	} {
		got, err := NewSettings(c.ratio, c.perSecond, c.interval)
		if got != c.want || (err != nil) != (c.wrong != "") {
			t.Errorf("NewSettings(%v, %v, %v): got %+v, %v; want %+v", c.ratio, c.perSecond, c.interval, got, err, c.want)
			continue
		}
		for _, field := range strings.Fields(c.wrong) {
			if !strings.Contains("\n"+err.Error(), "\n"+field+": ") {
				t.Errorf("NewSettings(%v, %v, %v): %q does not name %s", c.ratio, c.perSecond, c.interval, err, field)
			}
		}
		if err == nil && (got.Validate() != nil || got.MinRetriesPerSecond() != c.perSecond) {
			t.Errorf("%v: %v, %v a second", got, got.Validate(), got.MinRetriesPerSecond())
		}
	}
}

func TestValidate(t *testing.T) {
	for _, s := range []Settings{Never, Unlimited, DefaultSettings(), {Interval: MinInterval}, {1000, MaxReserve, MaxInterval, limited}} {
		if err := s.Validate(); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	err := Settings{Ratio: 1001, Reserve: -1}.Validate()
	for _, field := range []string{"ratio: ", "reserve: ", "interval: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %q", err, field)
		}
	}
	if s := (Settings{}); !s.IsNever() || s.IsUnlimited() || s.String() != "never" {
		t.Errorf("the zero value is %v, want never", s)
	}
	if got, want := DefaultSettings().String(), "ratio 0.2, min_retries_per_second 10, interval 10s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
