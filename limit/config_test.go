package limit_test

import (
	"math"
	"strings"
	"testing"

	"github.com/weir-go/weir/limit"
)

// Bounds beyond what a limit can be are an error, or no bound; the limit does not
// overflow.
func TestBoundsDoNotOverflow(t *testing.T) {
	a, err := limit.NewAuto(limit.Config{Max: math.MaxInt})
	if err != nil || a.Limit() != 10 {
		t.Errorf("%v: want no error, and a limit of 10", err)
	}
	for _, cfg := range []limit.Config{{Initial: math.MaxInt}, {Min: math.MaxInt}, {Initial: math.MaxInt, Max: math.MaxInt}} {
		if _, err := limit.NewAuto(cfg); err == nil {
			t.Errorf("%+v: want an error", cfg)
		}
	}
}

var constructors = map[string]func(limit.Config) (limit.Algorithm, error){
	"AIMD":      func(cfg limit.Config) (limit.Algorithm, error) { return limit.NewAIMD(cfg, 0) },
	"Vegas":     limit.NewVegas,
	"Gradient2": limit.NewGradient2,
}

func TestDefaults(t *testing.T) {
	for _, tt := range []struct {
		cfg  limit.Config
		want int
	}{
		{limit.Config{}, 20},
		{limit.Config{Max: 5}, 5},
		{limit.Config{Min: 30}, 30},
		{limit.Config{Min: 3000}, 3000},
	} {
		for name, construct := range constructors {
			a, err := construct(tt.cfg)
			if err != nil {
				t.Errorf("%s, %+v: %v", name, tt.cfg, err)
			} else if a.Limit() != tt.want {
				t.Errorf("%s, %+v: starts at %d: want %d", name, tt.cfg, a.Limit(), tt.want)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		cfg  limit.Config
		want string
	}{
		{limit.Config{Min: -1}, "Min = -1: must be >= 1"},
		{limit.Config{Min: 5, Max: 4}, "Max = 4: must be >= Min (5)"},
		{limit.Config{Max: -4}, "Max = -4"},
		{limit.Config{Initial: 2000}, "Initial = 2000: must be in ["},
		{limit.Config{Initial: -2}, "Initial = -2"},
		{limit.Config{Min: 5, Initial: 4}, "Initial = 4: must be in [5, "},
		{limit.Config{MaxHealthyLatency: -1}, "MaxHealthyLatency = -1ns: must be >= 0"},
	} {
		for name, construct := range constructors {
			if _, err := construct(tt.cfg); err == nil || !strings.HasPrefix(err.Error(), "limit: "+tt.want) {
				t.Errorf("%s, %+v: %v: want %q", name, tt.cfg, err, tt.want)
			}
		}
	}
	_, err := limit.NewGradient2(limit.Config{Initial: 10})
	if want := "limit: Initial = 10: must be in [20, 200]"; err == nil || err.Error() != want {
		t.Errorf("%v: want %q", err, want)
	}
}
