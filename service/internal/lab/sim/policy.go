package sim

import (
	"fmt"
	"math"
	"strings"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/lab/windowed"
)

// A Limit names and configures the algorithm of a guard. Only the configuration of that
// algorithm counts. In a file, a Limit is a number, a name, or a name and the fields of
// its configuration.
type Limit struct {
	Name      string                `yaml:"name"`
	N         int                   `yaml:"n"` // of fixed
	AIMD      limit.AIMDConfig      `yaml:"aimd"`
	Vegas     limit.VegasConfig     `yaml:"vegas"`
	Gradient2 limit.Gradient2Config `yaml:"gradient2"`
	Auto      limit.Config          `yaml:"auto"`
	// Window, if not nil, collects samples for the algorithm.
	Window *windowed.Config `yaml:"window"`
	// New, if not nil, returns the algorithm. Then the other fields have no effect.
	New func() (limit.Algorithm, error) `yaml:"-"`
}

// algorithms is the table of names.
var algorithms = []struct {
	name string
	make func(Limit) (limit.Algorithm, error)
}{
	{"none", func(Limit) (limit.Algorithm, error) { return limit.Fixed(math.MaxInt), nil }},
	{"fixed", func(l Limit) (limit.Algorithm, error) {
		if l.N < 0 {
			return nil, fmt.Errorf("limit: n = %d: must be >= 0", l.N)
		}
		return limit.Fixed(l.N), nil
	}},
	{"aimd", func(l Limit) (limit.Algorithm, error) { return limit.NewAIMD(l.AIMD) }},
	{"vegas", func(l Limit) (limit.Algorithm, error) { return limit.NewVegas(l.Vegas) }},
	{"gradient2", func(l Limit) (limit.Algorithm, error) { return limit.NewGradient2(l.Gradient2) }},
	{"auto", func(l Limit) (limit.Algorithm, error) { return limit.NewAuto(l.Auto) }},
}

// Algorithms returns the names that a Limit may have.
func Algorithms() (names []string) {
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

func (l Limit) algorithm() (limit.Algorithm, error) {
	if l.New != nil {
		return l.New()
	}
	for _, a := range algorithms {
		if a.name != l.Name {
			continue
		}
		alg, err := a.make(l)
		if err == nil && l.Window != nil {
			return windowed.New(*l.Window, alg)
		}
		return alg, err
	}
	return nil, fmt.Errorf("limit: %q: must be a whole number or one of %s", l.Name, strings.Join(Algorithms(), ", "))
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
