package proxyrule

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// maxNames bounds the names that Diff lists of each kind.
const maxNames = 3

// Diff describes the changes from old to new in one line of bounded length, such as
//
//	rules: 1 added (logins), 1 changed (clients); classes: as before
func Diff(old, new *Rules) string {
	rules := diff(old.Rules, new.Rules, func(r *Rule) string { return r.Name })
	classes := diff(old.Classes, new.Classes, func(c *Class) string { return c.Name })
	var others []string
	for _, field := range []struct {
		name     string
		old, new any
	}{
		{"mode", old.Mode, new.Mode}, {"max_pressure", old.MaxPressure, new.MaxPressure},
		{"health_path", old.HealthPath, new.HealthPath}, {"health_interval", old.HealthInterval, new.HealthInterval}, {"fields", old.Fields, new.Fields}, {"default", old.Default, new.Default}, {"total", old.Total, new.Total},
		{"priority", old.Priority, new.Priority}, {"tenants", old.Tenants, new.Tenants}, {"deadline", old.Deadline, new.Deadline},
	} {
		if !reflect.DeepEqual(field.old, field.new) {
			others = append(others, field.name)
		}
	}
	all := "rules: " + rules + "; classes: " + classes
	if len(others) > 0 {
		all += "; changed: " + strings.Join(others, ", ")
	}
	return all
}

func diff[T any](old, new []T, name func(*T) string) string {
	before := map[string]*T{}
	for i := range old {
		before[name(&old[i])] = &old[i]
	}
	var added, changed, removed []string
	for i := range new {
		was, ok := before[name(&new[i])]
		switch {
		case !ok:
			added = append(added, name(&new[i]))
		case !reflect.DeepEqual(was, &new[i]):
			changed = append(changed, name(&new[i]))
		}
		delete(before, name(&new[i]))
	}
	for missing := range before {
		removed = append(removed, missing)
	}
	slices.Sort(removed)
	var all []string
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", added}, {"changed", changed}, {"removed", removed}} {
		if n := len(part.names); n > 0 {
			list := strings.Join(part.names[:min(n, maxNames)], ", ")
			if n > maxNames {
				list += ", ..."
			}
			all = append(all, fmt.Sprintf("%d %s (%s)", n, part.what, list))
		}
	}
	if all == nil {
		return "as before"
	}
	return strings.Join(all, ", ")
}
