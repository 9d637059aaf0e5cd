package window_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/window"
)

const (
	never = weir.Never
	least = time.Duration(math.MinInt64)
)

var epoch = time.Date(2011, time.November, 11, 11, 11, 11, 11, time.UTC)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	testrig.Must(t, err)
	return loc
}

func TestEvery(t *testing.T) {
	for _, tt := range []struct {
		rule            string
		c               window.Calendar
		now, start, end time.Duration
	}{
		{"a window begins with its start", window.Every(10, 0), 20, 20, 30},
		{"and ends before its end", window.Every(10, 0), 29, 20, 30},
		{"the first begins at the epoch", window.Every(10, 0), 0, 0, 10},
		{"or at the offset", window.Every(10, 3), 3, 3, 13},
		{"with one before it", window.Every(10, 3), 2, -7, 3},
		{"an offset of whole periods is none", window.Every(10, -30), 5, 0, 10},
		{"it may be negative", window.Every(10, -3), 0, -3, 7},
		{"or more than a period", window.Every(10, 23), 24, 23, 33},
		{"there are windows before the epoch", window.Every(10, 0), -1, -10, 0},
		{"which begin with their start too", window.Every(10, 0), -10, -10, 0},
		{"windows may be as short as time goes", window.Every(1, 0), 7, 7, 8},
		{"or as long", window.Every(never, 0), never - 1, 0, never},
		{"and begin anywhere", window.Every(never, never-1), 0, -1, never - 1},
		{"an end that cannot be told is never", window.Every(1<<62, 1), never, 1<<62 + 1, never},
		{"nor does the last window end", window.Every(10, 0), never, never - 7, never},
		{"a start that cannot be told is the earliest", window.Every(10, 0), least + 1, least, least + 8},
		{"even of long windows", window.Every(never, 5), least, least, -never + 5},
		{"the zero Calendar has one window", window.Calendar{}, 5, least, never},
		{"so has no period", window.Every(0, 7), least, least, never},
		{"or a negative one", window.Every(-1, 7), never, least, never},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if start, end := tt.c.At(tt.now); start != tt.start || end != tt.end {
				t.Errorf("[%d, %d): want [%d, %d)", start, end, tt.start, tt.end)
			}
		})
	}
}

func TestEveryWithTheClock(t *testing.T) {
	start, _ := window.Every(time.Minute, epoch.Truncate(time.Minute).Sub(epoch)).At(time.Hour)
	if got := epoch.Add(start); got.Second() != 0 || got.Nanosecond() != 0 {
		t.Errorf("a minute begins at %v", got)
	}
}

func TestDates(t *testing.T) {
	const monday = time.Monday
	in := func(u window.Unit) func(time.Time, *time.Location) window.Calendar {
		return func(epoch time.Time, loc *time.Location) window.Calendar { return window.Dates(u, epoch, loc) }
	}
	minute, hour, day, month, year := in(window.Minute), in(window.Hour), in(window.Day), in(window.Month), in(window.Year)
	week := func(first time.Weekday) func(time.Time, *time.Location) window.Calendar {
		return in(window.WeekFromSunday + window.Unit(first))
	}
	for _, tt := range []struct {
		rule           string
		of             func(time.Time, *time.Location) window.Calendar
		zone           string
		at, start, end string
	}{
		{"a minute begins with itself", minute, "Europe/Berlin",
			"2024-05-06T12:34:00+02:00", "2024-05-06T12:34:00+02:00", "2024-05-06T12:35:00+02:00"},
		{"and has odd seconds in odd zones", minute, "Africa/Monrovia", // -00:44:30 until 1972
			"1960-05-06T00:44:29Z", "1960-05-06T00:43:30Z", "1960-05-06T00:44:30Z"},
		{"an hour is that of the zone", hour, "Asia/Kathmandu",
			"2024-05-06T12:59:59+05:45", "2024-05-06T12:00:00+05:45", "2024-05-06T13:00:00+05:45"},
		{"an hour ends as clocks go forward", hour, "America/New_York",
			"2024-03-10T01:30:00-05:00", "2024-03-10T01:00:00-05:00", "2024-03-10T03:00:00-04:00"},
		{"and one begins", hour, "America/New_York",
			"2024-03-10T03:00:00-04:00", "2024-03-10T03:00:00-04:00", "2024-03-10T04:00:00-04:00"},
		{"an hour ends as they go back", hour, "America/New_York",
			"2024-11-03T01:59:59-04:00", "2024-11-03T01:00:00-04:00", "2024-11-03T01:00:00-05:00"},
		{"so it comes twice", hour, "America/New_York",
			"2024-11-03T01:59:59-05:00", "2024-11-03T01:00:00-05:00", "2024-11-03T02:00:00-05:00"},
		{"clocks that go forward by half an hour lengthen an hour", hour, "Australia/Lord_Howe",
			"2024-10-06T02:45:00+11:00", "2024-10-06T01:00:00+10:30", "2024-10-06T03:00:00+11:00"},
		{"from its beginning", hour, "Australia/Lord_Howe",
			"2024-10-06T01:00:00+10:30", "2024-10-06T01:00:00+10:30", "2024-10-06T03:00:00+11:00"},
		{"and so do clocks that go back", hour, "Australia/Lord_Howe",
			"2024-04-07T01:45:00+10:30", "2024-04-07T01:00:00+11:00", "2024-04-07T02:00:00+10:30"},
		{"the last hour of a leap year is an hour, far away too", hour, "America/New_York",
			"2096-12-31T23:59:59-05:00", "2096-12-31T23:00:00-05:00", "2097-01-01T00:00:00-05:00"},

		{"a day is from midnight to midnight", day, "UTC",
			"2024-05-06T23:59:59Z", "2024-05-06T00:00:00Z", "2024-05-07T00:00:00Z"},
		{"midnight belongs to the new day", day, "UTC",
			"2024-05-07T00:00:00Z", "2024-05-07T00:00:00Z", "2024-05-08T00:00:00Z"},
		{"midnight is that of the zone, odd ones too", day, "Asia/Kathmandu",
			"2024-05-06T18:15:00Z", "2024-05-07T00:00:00+05:45", "2024-05-08T00:00:00+05:45"},
		{"even of a zone with seconds", day, "Africa/Monrovia", // -00:44:30 until 1972
			"1960-05-06T00:44:30Z", "1960-05-06T00:44:30Z", "1960-05-07T00:44:30Z"},
		{"23 hours when clocks go forward", day, "America/New_York",
			"2024-03-10T12:00:00-04:00", "2024-03-10T00:00:00-05:00", "2024-03-11T00:00:00-04:00"},
		{"25 when they go back", day, "America/New_York",
			"2024-11-03T12:00:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"},
		{"23½ where they go by half an hour", day, "Australia/Lord_Howe",
			"2024-10-06T12:00:00+11:00", "2024-10-06T00:00:00+10:30", "2024-10-07T00:00:00+11:00"},
		{"a day that has no midnight begins without", day, "America/Sao_Paulo",
			"2018-11-04T05:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"a day that has two begins with the first", day, "America/Havana",
			"2024-11-03T00:30:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"},
		{"and the day before it ends there", day, "America/Havana",
			"2024-11-02T23:59:59-04:00", "2024-11-02T00:00:00-04:00", "2024-11-03T00:00:00-04:00"},
		{"clocks that go back at midnight lengthen the old day", day, "America/Sao_Paulo",
			"2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"clocks that go back over midnight do not bring it back", day, "America/St_Johns", // at 00:01
			"2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"before they do it is the new day as well", day, "America/St_Johns",
			"2010-11-07T00:00:59-02:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"a date that was skipped has no time", day, "Pacific/Apia", // 2011-12-30
			"2011-12-29T23:59:59-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"none at all", day, "Pacific/Apia",
			"2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"and shortens its week", week(time.Friday), "Pacific/Apia",
			"2012-01-01T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-06T00:00:00+14:00"},
		{"a date that came twice is one long day", day, "America/Juneau", // Russia's and America's 19 October
			"1867-10-19T12:00:00Z", "1867-10-18T08:57:41Z", "1867-10-20T08:57:41Z"},
		{"even when it is the day before again", day, "America/Juneau",
			"1867-10-19T00:31:13Z", "1867-10-18T08:57:41Z", "1867-10-20T08:57:41Z"},
		{"there are days before the epoch", day, "Europe/Berlin",
			"1944-04-03T12:00:00Z", "1944-04-03T00:00:00+01:00", "1944-04-04T00:00:00+02:00"},

		{"a week is from Monday", week(monday), "UTC",
			"2024-05-12T23:59:59Z", "2024-05-06T00:00:00Z", "2024-05-13T00:00:00Z"},
		{"to Monday", week(monday), "UTC",
			"2024-05-13T00:00:00Z", "2024-05-13T00:00:00Z", "2024-05-20T00:00:00Z"},
		{"or from Sunday", week(time.Sunday), "UTC",
			"2024-05-18T00:00:00Z", "2024-05-12T00:00:00Z", "2024-05-19T00:00:00Z"},
		{"or from Saturday", week(time.Saturday), "UTC",
			"2024-05-17T00:00:00Z", "2024-05-11T00:00:00Z", "2024-05-18T00:00:00Z"},
		{"it goes over the end of a month", week(monday), "UTC",
			"2024-03-01T00:00:00Z", "2024-02-26T00:00:00Z", "2024-03-04T00:00:00Z"},
		{"and of a year, an hour short", week(monday), "Europe/London",
			"2024-03-31T12:00:00Z", "2024-03-25T00:00:00Z", "2024-04-01T00:00:00+01:00"},

		{"a month has 29 days", month, "UTC",
			"2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"or 28", month, "UTC", "2023-02-03T00:00:00Z", "2023-02-01T00:00:00Z", "2023-03-01T00:00:00Z"},
		{"or 31, and ends the year", month, "UTC",
			"2023-12-31T00:00:00Z", "2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z"},
		{"and begins where its zone says", month, "Pacific/Kiritimati",
			"2024-02-29T10:00:00Z", "2024-03-01T00:00:00+14:00", "2024-04-01T00:00:00+14:00"},
		{"its last instant was in its past", month, "America/St_Johns", // 2009-11-01 00:01
			"2009-10-31T23:30:00-03:30", "2009-11-01T00:00:00-02:30", "2009-12-01T00:00:00-03:30"},

		{"a year is from January to January", year, "Europe/Berlin",
			"2023-12-31T23:00:00Z", "2024-01-01T00:00:00+01:00", "2025-01-01T00:00:00+01:00"},
		{"it may be far away", year, "America/New_York",
			"2100-12-31T12:00:00-05:00", "2100-01-01T00:00:00-05:00", "2101-01-01T00:00:00-05:00"},
		{"the last day of a leap year is a day, far away too", day, "America/New_York",
			"2096-12-31T23:59:59-05:00", "2096-12-31T00:00:00-05:00", "2097-01-01T00:00:00-05:00"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			c := tt.of(epoch, zone(t, tt.zone))
			start, end := c.At(since(t, tt.at))
			if start != since(t, tt.start) || end != since(t, tt.end) {
				t.Errorf("[%v, %v): want [%s, %s)", epoch.Add(start), epoch.Add(end), tt.start, tt.end)
			}
		})
	}
}

func since(t *testing.T, instant string) time.Duration {
	t.Helper()
	at, err := time.Parse(time.RFC3339, instant)
	testrig.Must(t, err)
	return at.Sub(epoch)
}

func TestDatesBeyondDuration(t *testing.T) {
	c := window.Dates(window.Year, epoch, time.UTC)
	if _, end := c.At(never); end != never {
		t.Errorf("the last window ends at %v", end)
	}
	if start, _ := c.At(least); start != least {
		t.Errorf("the first window starts at %v", start)
	}
}

// An epoch may have been read from the machine, with all that time.Now adds.
func TestEpochNow(t *testing.T) {
	now := time.Now()
	for _, at := range []time.Duration{least, -time.Hour, 0, time.Hour, never} {
		start, end := window.Dates(window.Day, now, time.UTC).At(at)
		if s, e := window.Dates(window.Day, now.Round(0), time.UTC).At(at); s != start || e != end {
			t.Errorf("at %v: [%v, %v): want [%v, %v)", at, start, end, s, e)
		}
	}
}

// A fixed zone may be days away from UTC.
func TestFarZone(t *testing.T) {
	for _, hours := range []int{-200, -25, 25, 200} {
		loc := time.FixedZone("far", hours*3600)
		at := time.Date(2024, 5, 6, 7, 8, 9, 0, loc)
		start, end := window.Dates(window.Day, epoch, loc).At(at.Sub(epoch))
		if want := at.Add(-(7*time.Hour + 8*time.Minute + 9*time.Second)); !epoch.Add(start).Equal(want) || end-start != 24*time.Hour {
			t.Errorf("%d hours from UTC: [%v, %v): want from %v", hours, epoch.Add(start).In(loc), end, want)
		}
	}
}

func TestNoLocation(t *testing.T) {
	defer func() {
		if p := recover(); p != "window: a calendar without a location" {
			t.Errorf("panic %v", p)
		}
	}()
	window.Dates(window.Day, epoch, nil)
}

// reached is the latest date that clocks in loc have shown until t: a look at
// them for each minute of more than a day.
func reached(t time.Time, loc *time.Location) (date time.Time) {
	for x := t.Truncate(time.Minute).Add(-26 * time.Hour); ; x = x.Add(time.Minute) {
		if x.After(t) {
			x = t
		}
		y, m, d := x.In(loc).Date()
		if shown := time.Date(y, m, d, 0, 0, 0, 0, time.UTC); shown.After(date) {
			date = shown
		}
		if x.Equal(t) {
			return date
		}
	}
}

// Around changes of the clock, in the zones that are hardest on calendars, a
// window is where the date reached says the same, and no longer.
func TestDatesAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	unit := []struct {
		c  func(*time.Location) window.Calendar
		of func(date time.Time) any
	}{
		{func(l *time.Location) window.Calendar { return window.Dates(window.Day, epoch, l) },
			func(date time.Time) any { return date }},
		{func(l *time.Location) window.Calendar {
			return window.Dates(window.WeekFromSunday+window.Unit(time.Monday), epoch, l)
		},
			func(date time.Time) any { y, w := date.ISOWeek(); return [2]int{y, w} }},
		{func(l *time.Location) window.Calendar { return window.Dates(window.Month, epoch, l) },
			func(date time.Time) any { return [2]int{date.Year(), int(date.Month())} }},
		{func(l *time.Location) window.Calendar { return window.Dates(window.Year, epoch, l) },
			func(date time.Time) any { return date.Year() }},
	}
	for _, name := range []string{
		"UTC", "America/New_York", "America/St_Johns", "America/Havana", "America/Sao_Paulo", "America/Scoresbysund",
		"Africa/Cairo", "Africa/Monrovia", "Asia/Amman", "Asia/Kathmandu", "Asia/Gaza", "Australia/Lord_Howe",
		"Europe/Dublin", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham", "Antarctica/Troll",
	} {
		loc := zone(t, name)
		for i := range 40 {
			// Some day in two centuries, or close to the next change after it.
			at := time.Date(1900+rng.IntN(200), 1, 1+rng.IntN(366), 0, 0, rng.IntN(86400), 0, loc)
			if _, change := at.ZoneBounds(); !change.IsZero() && i > 0 {
				at = change.Add(time.Duration(rng.Int64N(int64(6*time.Hour))) - 3*time.Hour)
			}
			u := unit[i%len(unit)]
			start, end := u.c(loc).At(at.Sub(epoch))
			of := func(d time.Duration) any { return u.of(reached(epoch.Add(d), loc)) }
			if is := u.of(reached(at, loc)); of(start) != is || of(end-1) != is || of(start-1) == is || of(end) == is {
				t.Errorf("%v: [%v, %v): from %v to %v", at, epoch.Add(start).In(loc), epoch.Add(end).In(loc), of(start), of(end-1))
			}
		}
	}
}

// An hour has no full hour of the clocks within it, and begins and ends with one.
func TestHoursAgainstOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	for _, name := range []string{"America/New_York", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "Antarctica/Troll", "Pacific/Apia"} {
		loc := zone(t, name)
		c := window.Dates(window.Hour, epoch, loc)
		full := func(d time.Duration) bool { _, m, s := epoch.Add(d).In(loc).Clock(); return m == 0 && s == 0 }
		for i := range 40 {
			at := time.Date(1975+rng.IntN(100), 1, 1+rng.IntN(366), 0, 0, rng.IntN(86400), 0, loc)
			if _, change := at.ZoneBounds(); !change.IsZero() && i > 0 {
				at = change.Add(time.Duration(rng.Int64N(int64(6*time.Hour))) - 3*time.Hour)
			}
			now := at.Sub(epoch)
			start, end := c.At(now)
			if start > now || now >= end || !full(start) || !full(end) {
				t.Fatalf("%v: [%v, %v)", at, epoch.Add(start).In(loc), epoch.Add(end).In(loc))
			}
			for x := start + time.Minute; x < end; x += time.Minute {
				if full(x) {
					t.Fatalf("%v: [%v, %v): %v is within", at, epoch.Add(start).In(loc), epoch.Add(end).In(loc), epoch.Add(x).In(loc))
				}
			}
		}
	}
}

// Windows follow each other without gap, and each holds the instants it is
// the window of.
func FuzzCalendar(f *testing.F) {
	f.Add(int64(0), int64(10), int64(3), uint8(0))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), uint8(0))
	f.Add(int64(math.MinInt64), int64(1<<62), int64(math.MinInt64), uint8(0))
	f.Add(int64(1<<62), int64(0), int64(0), uint8(1))
	f.Add(int64(-1<<62), int64(0), int64(5), uint8(2))
	f.Add(int64(math.MaxInt64), int64(0), int64(0), uint8(3))
	f.Add(int64(math.MinInt64), int64(0), int64(0), uint8(4))
	f.Add(int64(1), int64(0), int64(0), uint8(9))
	f.Add(int64(1), int64(0), int64(0), uint8(5))
	f.Add(int64(-1<<62), int64(0), int64(0), uint8(6))
	f.Add(int64(math.MaxInt64), int64(0), int64(0), uint8(6))
	f.Add(int64(math.MinInt64), int64(0), int64(0), uint8(5))
	loc := zone(f, "America/St_Johns")
	f.Fuzz(func(t *testing.T, now, period, offset int64, kind uint8) {
		c := [...]window.Calendar{
			window.Every(time.Duration(period), time.Duration(offset)), window.Dates(window.Day, epoch, loc),
			window.Dates(window.WeekFromSunday+window.Unit(offset%7), epoch, loc), window.Dates(window.Month, epoch, loc), window.Dates(window.Year, epoch, loc),
			window.Dates(window.Minute, epoch, loc), window.Dates(window.Hour, epoch, loc),
		}[kind%7]
		at := time.Duration(now)
		start, end := c.At(at)
		if start > at || at >= end && at != never {
			t.Fatalf("window of %d: [%d, %d)", at, start, end)
		}
		if at == never {
			return // the end of the window before may be the same
		}
		for _, x := range []time.Duration{start, end - 1} {
			if s, e := c.At(x); x != least && (s != start || e != end) {
				t.Fatalf("window of %d: [%d, %d); of %d: [%d, %d)", at, start, end, x, s, e)
			}
		}
		if s, _ := c.At(end); end != never && s != end {
			t.Fatalf("the window after [%d, %d) starts at %d", start, end, s)
		}
		if _, e := c.At(start - 1); start != least && e != start {
			t.Fatalf("the window before [%d, %d) ends at %d", start, end, e)
		}
	})
}
