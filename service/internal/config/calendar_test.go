package config_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
)

// The next window begins where arithmetic on dates says, in zones where clocks change after
// midnight.
func FuzzNextWindow(f *testing.F) {
	f.Add(int64(954_032_400), int64(0), uint8(0)) // clocks in Berlin go forward
	f.Add(int64(972_781_199), int64(999_999_999), uint8(1))
	f.Add(int64(951_868_799), int64(999_999_999), uint8(2)) // the end of a leap day
	f.Add(int64(978_307_200), int64(0), uint8(6))
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Auckland"}
	f.Fuzz(func(t *testing.T, seconds, nanos int64, zone uint8) {
		const year = 365 * 24 * 60 * 60
		if seconds < 5*year || seconds > 130*year || nanos < 0 || nanos > 999_999_999 {
			return
		}
		q := config.Quota{Rate: config.Rate{Count: 1}, Algorithm: config.Calendar, Zone: zones[int(zone)%len(zones)]}
		loc, err := q.Location()
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(seconds, nanos)
		at := now.In(loc)
		monday := (int(at.Weekday()) + 6) % 7
		for period, want := range map[time.Duration]time.Time{
			time.Minute:        at.Truncate(time.Minute).Add(time.Minute),
			24 * time.Hour:     time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, loc),
			7 * 24 * time.Hour: time.Date(at.Year(), at.Month(), at.Day()+7-monday, 0, 0, 0, 0, loc),
			config.Month:       time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, loc),
		} {
			q.Rate.Period = period
			if next := q.NextWindow(now); !next.Equal(want) {
				t.Errorf("%v, %s: %v: want %v", at, q.Unit(), next, want)
			}
		}
	})
}

// A window is the same each time it is asked for, so that a reload without a change moves no
// counts.
func TestCalendarIsEqual(t *testing.T) {
	q := config.Quota{Rate: config.Rate{Count: 1, Period: 24 * time.Hour}, Algorithm: config.Calendar, Zone: "Europe/Berlin"}
	first, most := q.Calendar()
	if again, _ := q.Calendar(); again != first || most != 26*time.Hour {
		t.Errorf("%v, %v, at most %v", first, again, most)
	}
	q.Zone = ""
	if other, _ := q.Calendar(); other == first {
		t.Errorf("%v in another zone", other)
	}
}

// Envoy's API has units for the periods of calendar windows.
func TestRateUnit(t *testing.T) {
	for period, want := range map[time.Duration]uint64{time.Minute: 2, 24 * time.Hour: 4, 7 * 24 * time.Hour: 7, config.Month: 5, 90 * time.Second: 0} {
		if got := config.RateUnit(period); got != want {
			t.Errorf("%v: %d: want %d", period, got, want)
		}
	}
}
