package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/priority"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/lab/internal/windowed"
)

// A Limit names and configures the algorithm of a guard. Only the configuration of that
// algorithm counts. In a file, a Limit is a number, a name, or a name and the fields of
// its configuration.
type Limit struct {
	Name      string       `yaml:"name" required:"true" enum:"none,fixed,aimd,vegas,gradient2,auto" example:"auto" help:"Algorithm of the limit: fixed has n; none has no limit."`
	N         int          `yaml:"n" max:"inf" default:"0" example:"20" help:"Of fixed: the limit in units."`
	AIMD      AIMD         `yaml:"aimd"`
	Vegas     limit.Config `yaml:"vegas"`
	Gradient2 limit.Config `yaml:"gradient2"`
	Auto      limit.Config `yaml:"auto"`
	Window    bool         `yaml:"window" default:"false" example:"true" help:"Shows the algorithm one sample a second, as Envoy and Netflix do, instead of each request."`
	SlowStart *SlowStart   `yaml:"slow_start" default:"none" example:"1m" help:"Begins below the limit after a time without use."`
	// New, if not nil, returns the algorithm. Then the other fields have no effect.
	New func() (limit.Algorithm, error) `yaml:"-"`
}

// AIMD configures limit.NewAIMD.
type AIMD struct {
	limit.Config `yaml:",inline"`
	Backoff      float64 `yaml:"backoff" default:"0.8" example:"0.9" help:"Of aimd: factor of the limit after overload."`
}

// SlowStart configures limit.NewSlowStart. In a file, it may be Idle alone.
type SlowStart struct {
	Idle    time.Duration `yaml:"idle" required:"true" example:"1m" help:"Time without use after which the limit begins again."`
	Initial int           `yaml:"initial" max:"inf" default:"a tenth of the limit" example:"5" help:"Limit to begin with."`
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
	level, ok := priority.Parse(string(text), true)
	if !ok {
		return fmt.Errorf("%q: must be sheddable, sheddable_plus, critical or critical_plus", text)
	}
	*p = Priority(level)
	return nil
}
