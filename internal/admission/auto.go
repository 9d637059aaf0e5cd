package admission

import (
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
)

// Auto is the limit of each class where nobody has said another: limit.Auto behind
// a short queue, since what is refused is best refused at once. Three times as
// many may wait as may be in flight, so that a wait is about three times as long
// as the work, however long that takes (scenarios/sla-depth.yaml); and always as
// many as will be done in 100 ms, so that a burst of quick work is not refused.
var Auto = inflight.Config{Discipline: inflight.FIFO, Depth: 3, MinWait: 100 * time.Millisecond, MaxWait: 3 * time.Second}

// NewAuto returns such a limiter.
func NewAuto(string) weir.Limiter {
	l, err := inflight.New(Auto)
	if err != nil {
		panic("admission: " + err.Error()) // Auto is valid
	}
	return l
}
