package config_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
)

func TestRateText(t *testing.T) {
	for _, tt := range []struct {
		text string
		want config.Rate
		as   string // it is written
	}{
		{"100/s", config.Rate{Count: 100, Period: time.Second}, "100/s"},
		{"5/m", config.Rate{Count: 5, Period: time.Minute}, "5/m"},
		{"1000/h", config.Rate{Count: 1000, Period: time.Hour}, "1000/h"},
		{"10000/d", config.Rate{Count: 10000, Period: 24 * time.Hour}, "10000/d"},
		{"1/30d", config.Rate{Count: 1, Period: 720 * time.Hour}, "1/30d"},
		{"1/second", config.Rate{Count: 1, Period: time.Second}, "1/s"},
		{"1/minute", config.Rate{Count: 1, Period: time.Minute}, "1/m"},
		{"1/hour", config.Rate{Count: 1, Period: time.Hour}, "1/h"},
		{"1/day", config.Rate{Count: 1, Period: 24 * time.Hour}, "1/d"},
		{"1/week", config.Rate{Count: 1, Period: 168 * time.Hour}, "1/7d"},
		{"1/month", config.Rate{Count: 1, Period: config.Month}, "1/month"},
		{"100/90s", config.Rate{Count: 100, Period: 90 * time.Second}, "100/1m30s"},
		{"100/1m30s", config.Rate{Count: 100, Period: 90 * time.Second}, "100/1m30s"},
		{"100/90m", config.Rate{Count: 100, Period: 90 * time.Minute}, "100/1h30m"},
		{"100/120m", config.Rate{Count: 100, Period: 2 * time.Hour}, "100/2h"},
		{"100/1h0m5s", config.Rate{Count: 100, Period: time.Hour + 5*time.Second}, "100/1h0m5s"},
		{"100/24h", config.Rate{Count: 100, Period: 24 * time.Hour}, "100/d"},
		{"100/100ms", config.Rate{Count: 100, Period: 100 * time.Millisecond}, "100/100ms"},
		{"100 / 10m", config.Rate{Count: 100, Period: 10 * time.Minute}, "100/10m"},
		{"0/s", config.Rate{Period: time.Second}, "0/s"},
		{"", config.Rate{}, ""},
	} {
		var r config.Rate
		if err := r.UnmarshalText([]byte(tt.text)); err != nil || r != tt.want || r.String() != tt.as {
			t.Errorf("%q: %+v, %q, %v: want %+v, %q", tt.text, r, r, err, tt.want, tt.as)
		}
	}
	for _, text := range []string{"100", "/", "/s", "100/", "a/s", "-1/s", "+1/s", "1.5/s", "1e3/s", "1/s/s", "1/x", "1/0s", "1/-1s", "1/0d", "1/-1d", "1/99999d", "1/1",
		" ", " 1/s", "1/s ", "99999999999999999999/s", "1/9999999999h"} {
		r := config.Rate{Count: 7, Period: time.Hour}
		if err := r.UnmarshalText([]byte(text)); err == nil || r != (config.Rate{Count: 7, Period: time.Hour}) {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
}

func TestLimitText(t *testing.T) {
	for text, want := range map[string]config.Limit{"auto": config.Auto, "1": 1, "1000": 1000} {
		var l config.Limit = 7
		if err := l.UnmarshalText([]byte(text)); err != nil || l != want || l.String() != text {
			t.Errorf("%q: %v, %v", text, l, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "Auto", "1.5", "99999999999999999999"} {
		if err := new(config.Limit).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

// In JSON, too, rates and limits are texts.
func TestJSON(t *testing.T) {
	type both struct {
		Rate  config.Rate
		Limit config.Limit
	}
	want := both{config.Rate{Count: 5, Period: time.Minute}, config.Auto}
	text, err := json.Marshal(want)
	if err != nil || string(text) != `{"Rate":"5/m","Limit":"auto"}` {
		t.Errorf("%s, %v", text, err)
	}
	var got both
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
