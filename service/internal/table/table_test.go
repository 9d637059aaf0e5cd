package table_test

import (
	"testing"

	"github.com/weir-go/weir/service/internal/table"
)

func TestSeconds(t *testing.T) {
	for want, s := range map[string]float64{"20.5ms": 0.0204516, "157ms": 0.15732, "16.6ms": 0.016596, "1.23s": 1.2345, "999µs": 0.000999, "1m40s": 100, "0s": 0} {
		if got := table.Seconds(s); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for want, n := range map[string]int{"0 workers": 0, "1 worker": 1, "2 workers": 2} {
		if got := table.Count(n, "worker"); got != want {
			t.Errorf("%s: want %s", got, want)
		}
	}
}
