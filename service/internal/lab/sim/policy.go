package sim

import (
	"fmt"
	"math"
	"strings"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/gate"
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

// String returns the name or, if fixed, the number.
func (l Limit) String() string {
	if l.Name == "fixed" {
		return fmt.Sprint(l.N)
	}
	return l.Name
}

// A Priority is a weir.Priority, with a name in files.
type Priority weir.Priority

var priorities = map[string]weir.Priority{
	"sheddable": weir.Sheddable, "sheddable_plus": weir.SheddablePlus,
	"critical": weir.Critical, "critical_plus": weir.CriticalPlus,
}

// UnmarshalText reads sheddable, sheddable_plus, critical or critical_plus.
func (p *Priority) UnmarshalText(text []byte) error {
	q, ok := priorities[string(text)]
	if !ok {
		return fmt.Errorf("%q: must be sheddable, sheddable_plus, critical or critical_plus", text)
	}
	*p = Priority(q)
	return nil
}

// A Discipline is a gate.Discipline, with a name in files.
type Discipline gate.Discipline

// DisciplineNamed returns the Discipline of a name, such as an inflight.Discipline.
// It panics if there is none.
func DisciplineNamed[S ~string](name S) (d Discipline) {
	if err := d.UnmarshalText([]byte(name)); err != nil {
		panic("sim: " + err.Error())
	}
	return d
}

// UnmarshalText reads fifo, codel or adaptive_lifo.
func (d *Discipline) UnmarshalText(text []byte) error {
	var names []string
	for _, known := range []gate.Discipline{gate.FIFO, gate.CoDel, gate.AdaptiveLIFO} {
		if names = append(names, known.String()); known.String() == string(text) {
			*d = Discipline(known)
			return nil
		}
	}
	return fmt.Errorf("%q: must be one of %s", text, strings.Join(names, ", "))
}
