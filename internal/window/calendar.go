package window

import (
	"math"
	"time"

	"github.com/weir-go/weir"
)

// A Calendar divides time into windows that follow each other without gap. It
// is a value. The zero Calendar has a single window: all of time.
type Calendar struct {
	period, offset time.Duration // of equal windows; 0 <= offset < period

	unit  Unit // of windows on the calendar of loc
	epoch time.Time
	loc   *time.Location
}

// A Unit is a length of windows on the calendar of a place.
type Unit uint8

// The Units. ISO 8601 begins weeks on Monday.
const (
	Minute Unit = 1 + iota
	Hour
	Day
	Month
	Year
	WeekFromSunday // a week from the weekday d is WeekFromSunday + Unit(d)
)

// Every divides time into windows of one length; one begins offset after the
// epoch. A period of zero or less gives the zero Calendar.
//
// Windows of a minute that begin with the minutes of the clock are
//
//	Every(time.Minute, epoch.Truncate(time.Minute).Sub(epoch))
func Every(period, offset time.Duration) Calendar {
	if period <= 0 {
		return Calendar{}
	}
	return Calendar{period: period, offset: mod(offset, period)}
}

// Dates divides time into the units of loc, for instants since epoch. It panics if loc
// is nil.
//
// A day begins when clocks in loc first show its date, whether that is at midnight or not,
// and ends when the next one begins. A date that clocks skip has no day. Clocks that go back
// over midnight do not bring the old day back.
//
// An Hour begins whenever clocks in loc show a full hour, and a Minute when they show a full
// minute. Clocks that change by half an hour make one hour 30 minutes longer.
//
// Windows follow the clock that epoch was read from. If that clock is set
// afterwards, they do not change.
func Dates(u Unit, epoch time.Time, loc *time.Location) Calendar {
	if loc == nil {
		panic("window: a calendar without a location")
	}
	return Calendar{unit: u, epoch: epoch, loc: loc}
}

// At returns the window that now is in: start <= now < end. A start before
// what a Duration can hold is math.MinInt64. An end after it is weir.Never, an
// instant that is then in the window too.
func (c Calendar) At(now time.Duration) (start, end time.Duration) {
	switch {
	case c.unit != 0:
		return c.date(now)
	case c.period == 0:
		return math.MinInt64, weir.Never
	}
	into := mod(mod(now, c.period)-c.offset, c.period)
	start, end = now-into, now+(c.period-into)
	if start > now {
		start = math.MinInt64
	}
	if end < now {
		end = weir.Never
	}
	return start, end
}

// mod is the remainder of d in [0, period).
func mod(d, period time.Duration) time.Duration {
	d %= period
	if d < 0 {
		d += period
	}
	return d
}

// date is At on the calendar of loc. Dates are written as their midnight in
// UTC, where each day has one and 24 hours follow.
func (c Calendar) date(now time.Duration) (start, end time.Duration) {
	t := c.epoch.Add(now).In(c.loc)
	if c.unit <= Hour {
		return c.span(t, [...]time.Duration{Minute: time.Minute, Hour: time.Hour}[c.unit])
	}
	y, m, d := t.Date()
	var years, months, days int // of a window
	switch c.unit {
	case Day:
		days = 1
	case Month:
		d, months = 1, 1
	case Year:
		m, d, years = time.January, 1, 1
	default:
		d -= (int(t.Weekday()) + 7 - int(c.unit-WeekFromSunday)) % 7
		days = 7
	}
	date := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	from := c.first(date)
	for {
		date = date.AddDate(years, months, days)
		to := c.first(date)
		if to.After(t) {
			return from.Sub(c.epoch), to.Sub(c.epoch)
		}
		from = to // clocks went back over midnight
	}
}

// first returns the first instant at which clocks in loc show date or a later
// one. time.Date does not say which midnight it returns of two, and which
// instant if there is none. So go through the stretches between changes of the
// clock, from two days before: none ever went back by more than one.
func (c Calendar) first(date time.Time) time.Time {
	t := time.Date(date.Year(), date.Month(), date.Day()-2, 0, 0, 0, 0, c.loc)
	for {
		_, offset := t.Zone()
		midnight := date.Add(-time.Duration(offset) * time.Second)
		_, end := t.ZoneBounds()
		if !end.IsZero() && !end.After(t) {
			end = t.Add(24 * time.Hour) // on the last day of a leap year: golang/go#81583
		}
		switch {
		case midnight.Before(t):
			return t // clocks went over midnight
		case end.IsZero() || midnight.Before(end):
			return midnight
		}
		t = end
	}
}

// span is date for windows that begin when clocks show a multiple of length.
func (c Calendar) span(t time.Time, length time.Duration) (start, end time.Duration) {
	from, to := t, t
	for {
		begin, _ := from.ZoneBounds()
		from = from.Add(-shown(from, length))
		if begin.IsZero() || begin.After(t) || !from.Before(begin) {
			break
		}
		from = begin.Add(-1) // clocks changed in the window
	}
	for {
		_, change := to.ZoneBounds()
		next := to.Add(length - shown(to, length))
		if change.IsZero() || !change.After(to) || next.Before(change) { // not after: see first
			to = next
			break
		}
		if to = change; shown(to, length) == 0 {
			break
		}
	}
	return from.Sub(c.epoch), to.Sub(c.epoch)
}

// shown returns the time that clocks show beyond a multiple of length, which is at most an hour.
func shown(t time.Time, length time.Duration) time.Duration {
	_, m, s := t.Clock()
	return (time.Duration(m)*time.Minute+time.Duration(s)*time.Second)%length + time.Duration(t.Nanosecond())
}
