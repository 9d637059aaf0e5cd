package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/lab/windowed"
)

// A Limit names and configures the algorithm of a guard. Only the configuration of that
// algorithm counts. In a file, a Limit is a number, a name, or a name and the fields of
// its configuration.
type Limit struct {
	Name      string       `yaml:"name"`
	N         int          `yaml:"n" max:"inf"` // of fixed
	AIMD      AIMD         `yaml:"aimd"`
	Vegas     limit.Config `yaml:"vegas"`
	Gradient2 limit.Config `yaml:"gradient2"`
	Auto      limit.Config `yaml:"auto"`
	Window    bool         `yaml:"window"`     // show the algorithm a sample per second (package windowed)
	SlowStart *SlowStart   `yaml:"slow_start"` // if nil, none
	// New, if not nil, returns the algorithm. Then the other fields have no effect.
	New func() (limit.Algorithm, error) `yaml:"-"`
}

// AIMD configures limit.NewAIMD.
type AIMD struct {
	limit.Config `yaml:",inline"`
	Backoff      float64 `yaml:"backoff"`
}

// SlowStart configures limit.NewSlowStart. In a file, it may be Idle alone.
type SlowStart struct {
	Idle    time.Duration `yaml:"idle"`
	Initial int           `yaml:"initial" max:"inf"`
}

func (l Limit) algorithm() (alg limit.Algorithm, err error) {
	if l.New != nil {
		return l.New()
	}
	switch l.Name {
	case "none":
		alg = limit.Fixed(math.MaxInt)
	case "fixed":
		alg = limit.Fixed(l.N)
	case "aimd":
		alg, err = limit.NewAIMD(l.AIMD.Config, l.AIMD.Backoff)
	case "vegas":
		alg, err = limit.NewVegas(l.Vegas)
	case "gradient2":
		alg, err = limit.NewGradient2(l.Gradient2)
	case "auto":
		alg, err = limit.NewAuto(l.Auto)
	default:
		err = fmt.Errorf("limit: %q: must be a whole number or one of none, fixed, aimd, vegas, gradient2, auto", l.Name)
	}
	if err == nil && l.Window {
		alg = windowed.New(alg)
	}
	if s := l.SlowStart; err == nil && s != nil {
		return limit.NewSlowStart(alg, limit.SlowStart{Idle: s.Idle, Initial: s.Initial})
	}
	return alg, err
}

// A Priority is a weir.Priority, with a name in files.
type Priority weir.Priority

// UnmarshalText reads sheddable, sheddable_plus, critical or critical_plus.
func (p *Priority) UnmarshalText(text []byte) error {
	priority, ok := caller.Priority(string(text), true)
	if !ok {
		return fmt.Errorf("%q: must be sheddable, sheddable_plus, critical or critical_plus", text)
	}
	*p = Priority(priority)
	return nil
}
