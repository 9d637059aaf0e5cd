package proxyrule_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A class may say that no latency is quick, whatever the flag says.
func TestQuickLatency(t *testing.T) {
	flag, none := 5*time.Millisecond, time.Duration(0)
	base := proxyrule.Concurrency{QuickLatency: &flag}
	for _, tt := range []struct {
		class *time.Duration
		want  time.Duration
	}{{nil, flag}, {&none, none}} {
		if got := (proxyrule.Concurrency{QuickLatency: tt.class}).Over(base).Config().QuickLatency; got != tt.want {
			t.Errorf("%v: want %v", got, tt.want)
		}
	}
}
