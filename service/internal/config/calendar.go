package config

import (
	"cmp"
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // zones on machines without their database

	"github.com/weir-go/weir/internal/window"
)

// calendarUnits are the periods of Calendar windows.
var calendarUnits = map[time.Duration]struct {
	name string
	unit window.Unit
}{
	time.Minute: {"minute", window.Minute},
	time.Hour:   {"hour", window.Hour},
	day:         {"day", window.Day},
	week:        {"week", window.WeekFromSunday + window.Unit(time.Monday)},
	Month:       {"month", window.Month},
}

// Unit returns the name of the unit in which Calendar windows count: minute, hour, day, week or
// month. It is empty for another Algorithm, and for a period that is no such unit.
func (q Quota) Unit() string {
	if q.Algorithm != Calendar {
		return ""
	}
	return calendarUnits[q.Rate.Period].name
}

// ZoneName returns the name of the time zone of Calendar windows; empty for another Algorithm.
func (q Quota) ZoneName() string {
	if q.Algorithm != Calendar {
		return ""
	}
	return cmp.Or(q.Zone, "UTC")
}

// locations are the *time.Location of zones by name. A zone has one in a process, so that
// windows of equal quotas are equal.
var locations sync.Map

// Location returns the time zone, or an error if there is none with this name. The local zone of
// the machine is none: it differs between machines.
func (q Quota) Location() (*time.Location, error) {
	name := cmp.Or(q.Zone, "UTC")
	if loc, ok := locations.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err == nil && loc == time.Local {
		err = fmt.Errorf("unknown time zone %s", name)
	}
	if err != nil {
		return nil, err
	}
	only, _ := locations.LoadOrStore(name, loc)
	return only.(*time.Location), nil
}

// Calendar returns the windows of a valid Quota with Algorithm Calendar, for instants since
// 1970, and a length that they do not exceed. Clocks that change by half an hour make one hour
// longer than that.
func (q Quota) Calendar() (windows window.Calendar, most time.Duration) {
	loc, err := q.Location()
	if err != nil {
		panic("config: " + err.Error())
	}
	most = q.Rate.Period
	if most == day || most == week {
		most += 2 * time.Hour // the largest change of clocks in use
	}
	return window.Dates(calendarUnits[q.Rate.Period].unit, time.Unix(0, 0), loc), most
}

// NextWindow returns the end of the Calendar window that contains an instant, in the time zone of the Quota, which
// must be valid.
func (q Quota) NextWindow(now time.Time) time.Time {
	windows, _ := q.Calendar()
	loc, _ := q.Location() // known: Calendar has found it
	_, end := windows.At(now.Sub(time.Unix(0, 0)))
	return time.Unix(0, int64(end)).In(loc)
}
