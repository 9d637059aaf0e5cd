package proxyrule

import "fmt"

// warnings describes the parts of a file that reject all of their requests, with their places.
func (c *checker) warnings() (all []string) {
	warn := func(path, format string, args ...any) {
		all = append(all, c.Place(path)+": warning: "+fmt.Sprintf(format, args...))
	}
	limit := func(path, what string, l *Limit, m Mode) {
		if l != nil && l.fixed && l.n == 0 && c.modeOf(m) != Shadow {
			warn(path+".limit", "%s: limit = 0 rejects all of its requests", what)
		}
	}
	for i := range c.Rules.Rules {
		switch r, path := &c.Rules.Rules[i], fmt.Sprintf("rules[%d].rate", i); {
		case r.Limit > 0 || r.Rate.Count > 0 || c.modeOf(r.Mode) == Shadow:
		case r.Burst == 0:
			warn(path, "rule %s: rate = %v denies all of its requests", r.Name, r.Rate)
		default:
			warn(path, "rule %s: rate = %v denies all of its requests after the first %d of a bucket", r.Name, r.Rate, r.Burst)
		}
	}
	for i := range c.Classes {
		class := &c.Classes[i]
		limit(fmt.Sprintf("classes[%d]", i), "class "+class.Name, class.Limit, class.Mode)
	}
	if d := c.Default; d != nil {
		limit("default", "class default", d.Limit, d.Mode)
	}
	if t := c.Total; t != nil {
		limit("total", "total", t.Limit, "")
	}
	return all
}
