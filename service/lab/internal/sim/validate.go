package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/pace"
)

// A FieldError reports a field of a Scenario that is out of range. Field is its path in a
// file: layers[0].service_time.mean.
type FieldError = dist.FieldError

// Bounds of a scenario, besides those in the tags of its fields.
const (
	maxUsers   = 1_000_000
	maxSteps   = 1_000_000
	maxClients = 1000
	maxLayers  = 16
	maxCalls   = 100
	maxChanges = 1000

	// maxTime bounds every duration, so that sums do not overflow.
	maxTime = 10_000 * time.Hour
)

// A checker keeps the first error.
type checker struct{ err error }

func (c *checker) check(fine bool, field string, value any, rule string, args ...any) {
	if !fine && c.err == nil {
		c.err = &FieldError{Field: field, Value: value, Rule: fmt.Sprintf(rule, args...)}
	}
}

// checkError checks a part of the scenario that another package has validated; the
// prefix of its error is cut off.
func (c *checker) checkError(err error, field string, value any) {
	if err == nil {
		return
	}
	rule := err.Error()
	if _, text, prefixed := strings.Cut(rule, ": "); prefixed {
		rule = text
	}
	c.check(false, field, value, "%s", rule)
}

// checkFields checks v, and all fields below it: the service times, the numbers with a tag
// max, which must be in [0, max], and the durations, which may be negative if they have
// the tag signed. The tag zero is for messages.
func (c *checker) checkFields(path string, v reflect.Value, tag reflect.StructTag) {
	switch x := v.Interface().(type) {
	case time.Duration:
		c.check(x >= 0 && x <= maxTime || tag.Get("signed") == "true", path, x, "must be in [0, %v]", maxTime)
		c.check(x >= -maxTime && x <= maxTime, path, x, "must be in [-%v, %[1]v]", maxTime)
		return
	case dist.ServiceTime:
		if e, wrong := errors.AsType[*dist.FieldError](x.Validate()); wrong {
			c.check(false, path+"."+e.Field, e.Value, "%s", e.Rule)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.checkFields(path, v.Elem(), tag)
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.checkFields(fmt.Sprintf("%s[%d]", path, i), v.Index(i), "")
		}
	case reflect.Map:
		for name, item := range v.Seq2() {
			c.checkFields(path+"."+name.String(), item, "")
		}
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeFor[checker]().PkgPath() {
			return // it has a Validate
		}
		for field, item := range v.Fields() {
			at := path
			if field.Tag.Get("yaml") == "-" {
				continue // not of a file
			}
			if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "" {
				at = strings.TrimPrefix(path+"."+name, ".")
			}
			c.checkFields(at, item, field.Tag)
		}
	case reflect.Int:
		c.checkNumber(path, v.Interface(), float64(v.Int()), tag)
	case reflect.Float64:
		c.checkNumber(path, v.Interface(), v.Float(), tag)
	}
}

func (c *checker) checkNumber(path string, value any, x float64, tag reflect.StructTag) {
	switch most := tag.Get("max"); most {
	case "":
	case "inf":
		c.check(x >= 0, path, value, "must be >= 0")
	default:
		bound, _ := strconv.ParseFloat(most, 64)
		rule := fmt.Sprintf("must be in [0, %s]", most)
		if zero, special := tag.Lookup("zero"); special {
			rule += "; 0 is " + zero
		}
		c.check(x >= 0 && x <= bound, path, value, "%s", rule)
	}
}

// checkName checks that a name, if there is one, is not taken.
func (c *checker) checkName(at, name string, taken map[string]bool) {
	c.check(name == "" || !taken[name], at+"name", strconv.Quote(name), "is given twice")
	taken[name] = true
}

// Validate returns a *FieldError for a field that is out of range, or nil.
func (sc Scenario) Validate() error {
	c := &checker{}
	c.checkFields("", reflect.ValueOf(sc), "")
	c.check(sc.Duration > 0, "duration", sc.Duration, "must be > 0")
	c.check(sc.Warmup < sc.Duration, "warmup", sc.Warmup, "must be in [0, duration)")
	c.check(sc.Step == 0 || sc.Duration/sc.Step < maxSteps, "step", sc.Step,
		"there must be at most %d of them in duration", maxSteps)
	c.check(len(sc.Layers) > 0 && len(sc.Layers) <= maxLayers, "layers", len(sc.Layers),
		"there must be 1 to %d", maxLayers)
	c.check(len(sc.Clients) > 0 && len(sc.Clients) <= maxClients, "clients", len(sc.Clients),
		"there must be 1 to %d", maxClients)
	layers, clients, users := map[string]bool{}, map[string]bool{}, 0
	used := sc.used()
	for i := range sc.Layers {
		at := fmt.Sprintf("layers[%d].", i)
		c.checkName(at, sc.Layers[i].Name, layers)
		sc.Layers[i].check(c, at, used)
		sc.checkCalls(c, at, i)
	}
	for i := range sc.Clients {
		at := fmt.Sprintf("clients[%d].", i)
		c.checkName(at, sc.Clients[i].Name, clients)
		sc.Clients[i].check(c, at, sc.Layers)
		users += min(sc.Clients[i].Users, maxUsers)
		c.check(users <= maxUsers, at+"users", sc.Clients[i].Users,
			"must be at most %d with those of the clients before", maxUsers)
	}
	return c.err
}

// check checks what depends on several fields; used are the classes of the clients' calls.
func (l *Layer) check(c *checker, at string, used map[string]bool) {
	c.check(!l.Sharing || l.Workers > 0, at+"workers", l.Workers, "must be >= 1 with sharing")
	c.check(l.Pause.Every == 0 || l.Pause.Every > l.Pause.For, at+"pause.every", l.Pause.Every,
		"must be greater than for")
	c.check(l.Flap == Flap{} || l.Flap.For > 0 && l.Flap.For < l.Flap.Every, at+"flap.for", l.Flap.For,
		"must be in (0, every)")
	for _, class := range l.FailingClasses {
		c.check(used[class], at+"failing_classes", strconv.Quote(class), "no client has calls of this class")
	}
	l.checkChanges(c, at)
	if l.Guard != nil {
		l.Guard.check(c, at+"guard", used)
	}
}

// checkCalls checks which layers the classes of the i-th layer call.
func (sc *Scenario) checkCalls(c *checker, at string, i int) {
	for _, name := range slices.Sorted(maps.Keys(sc.Layers[i].Classes)) {
		class := sc.Layers[i].Classes[name]
		at := fmt.Sprintf("%sclasses.%s.calls_of", at, name)
		c.check(class.Calls == nil || len(class.CallsOf) == 0, at, len(class.CallsOf), "must not be beside calls")
		c.check(len(class.CallsOf) <= maxCalls, at, len(class.CallsOf), "there must be at most %d", maxCalls)
		for _, to := range class.CallsOf {
			below := slices.ContainsFunc(sc.Layers[i+1:], func(l Layer) bool { return l.Name == to })
			c.check(to != "" && below, at, strconv.Quote(to), "must be the name of a layer below")
		}
	}
}

// checkChanges checks the changes, and the faults before and after each.
func (l *Layer) checkChanges(c *checker, at string) {
	c.check(len(l.Changes) <= maxChanges, at+"changes", len(l.Changes), "there must be at most %d", maxChanges)
	st, before := layerState{faults: l.faults()}, time.Duration(0)
	l.checkFaults(c, at, st.faults)
	for i := range l.Changes {
		ch, at := &l.Changes[i], fmt.Sprintf("%schanges[%d].", at, i)
		c.check(ch.At >= before, at+"at", ch.At, "must not be before the previous one")
		before = ch.At
		c.check(ch.Slowdown == nil || *ch.Slowdown > 0, at+"slowdown", ch.Slowdown, "must be > 0")
		c.check(ch.Workers == nil || *ch.Workers >= 1, at+"workers", ch.Workers, "must be >= 1")
		st.change(ch)
		l.checkFaults(c, at, st.faults)
	}
}

// checkFaults checks the rates and the pods of the faults at some time.
func (l *Layer) checkFaults(c *checker, at string, f faults) {
	c.check(f.failure+f.refusal <= 1, at+"failure_rate", f.failure,
		"must be at most 1 with refuse_rate = %v", f.refusal)
	c.check(f.failure+f.refusal+f.hang <= 1, at+"hang_rate", f.hang,
		"must be at most 1 with failure_rate = %v and refuse_rate = %v", f.failure, f.refusal)
	c.check(f.badPods <= l.Pods, at+"bad_pods", f.badPods, "must be in [0, pods = %d]", l.Pods)
}

func (g *Guard) check(c *checker, at string, used map[string]bool) {
	g.Instances.check(c, at+".instances", used)
	st := g.Stalls
	c.check(st.Every == 0 || st.Every > st.For, at+".stalls.every", st.Every, "must be greater than for")
	c.check(st.For == 0 || g.Rate == nil && g.Other == nil, at+".stalls.for", st.For, "must be 0 with a rate")
	switch r := g.Rate; {
	case g.Other != nil:
	case r != nil:
		c.check(r.PerSecond > 0, at+".rate.per_second", r.PerSecond, "must be > 0")
		c.check(!r.Mute || r.MaxWait > 0, at+".rate.max_wait", r.MaxWait, "must be > 0 with mute")
	default:
		_, err := g.Limit.algorithm()
		c.checkError(err, at+".limit", g.Limit.Name)
		rules := g.config()
		c.checkError(rules.Discipline.Validate(), at+".discipline", g.Discipline)
		err = rules.Validate()
		c.check(err == nil, at, "a rule of its queue", "%v", err)
	}
}

func (cl *Client) check(c *checker, at string, layers []Layer) {
	loops := 0
	for _, given := range []bool{cl.Rate != "", cl.Users > 0, cl.Recording != "" || len(cl.Recorded) > 0} {
		if given {
			loops++
		}
	}
	c.check(loops == 1, at+"rate", strconv.Quote(cl.Rate),
		"must be given for an open loop, unless there is a recording, or else users >= 1 for a closed one")
	c.check(cl.Recording == "" || len(cl.Recorded) > 0, at+"recording", strconv.Quote(cl.Recording), "has no requests")
	c.check(slices.IsSortedFunc(cl.Recorded, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) }), at+"recording",
		strconv.Quote(cl.Recording), "the calls must be in the order of their instants")
	c.check(!slices.ContainsFunc(cl.Recorded, func(a Arrival) bool {
		return min(a.At, a.Late, a.Patience, a.Work) < 0 || max(a.At, a.Late, a.Patience, a.Work) > maxTime
	}),
		at+"recording", strconv.Quote(cl.Recording), "no time must be below 0 or above %v", maxTime)
	c.check(len(cl.Recorded) == 0 || len(cl.Mix) == 0, at+"mix", len(cl.Mix), "must not be beside a recording, which has the classes")
	if cl.Rate != "" {
		_, err := pace.Parse(cl.Rate)
		c.checkError(err, at+"rate", strconv.Quote(cl.Rate))
	}
	known := slices.Contains([]string{"", "poisson", "even"}, cl.Arrivals)
	c.check(known, at+"arrivals", strconv.Quote(cl.Arrivals), "must be poisson or even")
	c.check(cl.Burst == Burst{} || cl.Burst.For > 0 && cl.Burst.For <= cl.Burst.Every, at+"burst.for", cl.Burst.For,
		"must be in (0, every]")
	if cl.TimeoutCV > 0 {
		c.check(cl.Timeout > 0, at+"timeout_cv", cl.TimeoutCV, "needs a timeout")
		c.checkError(cl.timeouts().Validate(), at+"timeout_cv", cl.TimeoutCV)
	}
	if b := cl.Retry.Budget; b != nil {
		c.checkError(b.Validate(), at+"retry.budget", b.Ratio)
	}
	if t := cl.Throttle; t != nil {
		c.checkError(t.Validate(), at+"throttle", t.K)
	}
	sum := 0.0
	for i, share := range cl.Mix {
		at := fmt.Sprintf("%smix[%d].", at, i)
		c.check(share.Share >= 0 && !math.IsInf(share.Share, 1), at+"share", share.Share, "must be >= 0")
		sum += share.Share
		known := slices.ContainsFunc(layers, func(l Layer) bool { _, named := l.Classes[share.Class]; return named })
		c.check(share.Class == "" || known, at+"class", strconv.Quote(share.Class),
			"no layer has a service time for this class")
	}
	c.check(len(cl.Mix) == 0 || sum > 0, at+"mix", sum, "the shares must not all be 0")
	works := slices.ContainsFunc(cl.shares(), func(m Share) bool {
		return m.Share > 0 && slices.ContainsFunc(layers, func(l Layer) bool { return l.class(m.Class).Mean > 0 })
	})
	c.check(cl.Users == 0 || cl.Think.Mean > 0 || works, at+"think.mean", cl.Think.Mean,
		"must be > 0 if no layer has a service time: calls would follow each other in no time")
}
