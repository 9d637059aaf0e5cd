package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Instances are the instances of a Guard: replicas of a service, or of a proxy,
// in front of one station. Each instance has its own queue and algorithm. In a
// file, Instances is a number, or a list of groups. If empty, a Guard has one
// instance.
type Instances []Group

// A Group is a number of equal instances.
type Group struct {
	Name    string   `yaml:"name" default:"their numbers" example:"canary" help:"Names the instances in results."`
	Count   int      `yaml:"count" max:"1000" default:"1" example:"8" help:"Number of instances."`
	Weight  float64  `yaml:"weight" max:"1e6" default:"1" example:"0.5" help:"Share of each instance in the load, in proportion to the others."`
	Classes []string `yaml:"classes" default:"the classes that no group names" example:"[search]" help:"Classes of calls that the group gets."`
	Limit   *Limit   `yaml:"limit" default:"limit of the guard" example:"20" help:"Limit of the group."`

	Epoch      time.Duration `yaml:"epoch" default:"0s" example:"100ms" help:"What the clock of an instance shows at the beginning of the run."`
	EpochEvery time.Duration `yaml:"epoch_every" default:"0s" example:"10ms" help:"The n-th instance of the group adds n-1 times this."`
	Skew       time.Duration `yaml:"skew" signed:"true" default:"0s" example:"-20ms" help:"Error of the wall clock of the instances, of either sign."`
	SkewSpread time.Duration `yaml:"skew_spread" default:"0s" example:"50ms" help:"Spreads the errors evenly, from skew - skew_spread to skew + skew_spread."`
	Start      time.Duration `yaml:"start" default:"0s" example:"1m" help:"Instant before which an instance gets no calls."`
	StartEvery time.Duration `yaml:"start_every" default:"0s" example:"5s" help:"The n-th instance of the group adds n-1 times this."`
}

// maxInstances bounds the instances of a guard.
const maxInstances = 1000

// Count returns the number of instances, at least one.
func (all Instances) Count() (n int) {
	for _, g := range all {
		n += max(g.Count, 1)
	}
	return max(n, 1)
}

// label names the k-th instance of the group, the n-th of the guard.
func (g *Group) label(n, k int) string {
	switch {
	case g.Name == "":
		return strconv.Itoa(n)
	case g.Count <= 1:
		return g.Name
	default:
		return g.Name + "-" + strconv.Itoa(k+1)
	}
}

// skew returns the error of the wall clock of the k-th instance.
func (g *Group) skew(k int) time.Duration {
	if g.Count <= 1 {
		return g.Skew
	}
	return g.Skew + time.Duration(float64(g.SkewSpread)*(2*float64(k)/float64(g.Count-1)-1))
}

// serves reports whether a group gets calls of a class, given whether any group
// names that class.
func (g *Group) serves(class string, named bool) bool {
	if named {
		return slices.Contains(g.Classes, class)
	}
	return len(g.Classes) == 0
}

// names reports whether any group names a class.
func (all Instances) names(class string) bool {
	return slices.ContainsFunc(all, func(g Group) bool { return slices.Contains(g.Classes, class) })
}

// check checks the fields; used are the classes of the clients' calls.
func (all Instances) check(c *checker, at string, used map[string]bool) {
	total := 0
	names := map[string]bool{}
	for i, g := range all {
		at := fmt.Sprintf("%s[%d].", at, i)
		c.checkName(at, g.Name, names)
		total += max(min(g.Count, maxInstances), 1)
		c.check(total <= maxInstances, at+"count", g.Count, "there must be at most %d instances", maxInstances)
		for _, class := range g.Classes {
			c.check(used[class], at+"classes", strconv.Quote(class), "no client has calls of this class")
		}
		if g.Limit != nil {
			_, err := g.Limit.algorithm()
			c.checkError(err, at+"limit", g.Limit.Name)
		}
		c.checkLast(at+"epoch", g.Epoch, g.EpochEvery, g.Count)
		c.checkLast(at+"start", g.Start, g.StartEvery, g.Count)
	}
	if len(all) == 0 {
		return
	}
	for _, class := range slices.Sorted(maps.Keys(used)) {
		named := all.names(class)
		served := slices.ContainsFunc(all, func(g Group) bool { return g.serves(class, named) && g.Start == 0 })
		if class == "" {
			c.check(served, at+"[0].start", all[0].Start,
				"calls without a class need a group with start 0 and without classes")
			continue
		}
		c.check(served, at, strconv.Quote(class), "the calls of this class need a group that has start 0")
	}
}

// checkLast checks an instant of a group, and the increment per instance.
func (c *checker) checkLast(field string, first, every time.Duration, count int) {
	last := float64(first) + float64(every)*float64(count-1)
	c.check(last <= float64(maxTime), field+"_every", every, "must not bring the last instance beyond %v", maxTime)
}
