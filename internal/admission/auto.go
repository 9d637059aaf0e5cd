package admission

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
)

// Auto configures the limit of a class if the user has not set another:
// limit.NewAuto with a short queue. Three times the limit may wait, so that a wait
// lasts about three times as long as the work (scenarios/sla-depth.yaml). The
// queue may always hold what is done within 100 ms, so that a burst of quick work
// is not refused.
var Auto = inflight.Config{Discipline: inflight.FIFO, Depth: 3, MinWait: 100 * time.Millisecond, MaxWait: 3 * time.Second}

// NewAuto returns a limiter with the configuration Auto.
func NewAuto(string) weir.Limiter {
	l, err := inflight.New(Auto)
	if err != nil {
		panic("admission: " + err.Error()) // Auto is valid
	}
	return l
}
