package cache_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/cache"
)

// A bad field is named, with its value and what it must be.
func TestValidate(t *testing.T) {
	cost := func(string, int) int64 { return 1 }
	for _, tt := range []struct {
		cfg  config
		want string
	}{
		{config{TTL: -1}, "cache: TTL = -1ns: must be >= 0"},
		{config{Refresh: cache.Refresh{ErrorTTL: -1}}, "cache: ErrorTTL = -1ns: must be >= 0"},
		{config{TTL: 1, Refresh: cache.Refresh{Stale: -1}}, "cache: Stale = -1ns: must be >= 0"},
		{config{TTL: 1, Refresh: cache.Refresh{StaleIfError: -time.Second}}, "cache: StaleIfError = -1s: must be >= 0"},
		{config{TTL: 1, Refresh: cache.Refresh{StaleIfRejected: -1}}, "cache: StaleIfRejected = -1ns: must be >= 0"},
		{config{Refresh: cache.Refresh{Timeout: -1}}, "cache: Timeout = -1ns: must be >= 0"},
		{config{Entries: -1}, "cache: Entries = -1: must be from 0 to 2147483647"},
		{config{Entries: cache.MaxEntries + 1}, "cache: Entries = 2147483648: must be from 0 to 2147483647"},
		{config{Bytes: -1, Cost: cost}, "cache: Bytes = -1: must be from 0 to 281474976710656"},
		{config{Bytes: cache.MaxBytes + 1, Cost: cost}, "cache: Bytes = 281474976710657: must be from 0 to 281474976710656"},
		{config{Bytes: 1, Entries: 1, Cost: cost}, "cache: Entries and Bytes: only one may be set"},
		{config{Bytes: 1}, "cache: Bytes is set: needs Cost"},
		{config{Cost: cost}, "cache: Cost is set: needs Bytes"},
		{config{TTL: 1, Refresh: cache.Refresh{Jitter: -0.5}}, "cache: Jitter = -0.5: must be in [0, 1)"},
		{config{TTL: 1, Refresh: cache.Refresh{Jitter: 1}}, "cache: Jitter = 1: must be in [0, 1)"},
		{config{TTL: 1, Refresh: cache.Refresh{Jitter: math.NaN()}}, "cache: Jitter = NaN: must be in [0, 1)"},
		{config{TTL: 1, Refresh: cache.Refresh{Early: -1}}, "cache: Early = -1: must be finite and >= 0"},
		{config{TTL: 1, Refresh: cache.Refresh{Early: math.NaN()}}, "cache: Early = NaN: must be finite and >= 0"},
		{config{TTL: 1, Refresh: cache.Refresh{Early: math.Inf(1)}}, "cache: Early = +Inf: must be finite and >= 0"},
		{config{Refresh: cache.Refresh{Background: -1}}, "cache: Background = -1: must be >= 0"},
		{config{Refresh: cache.Refresh{Stale: 1}}, needsTTL}, {config{Refresh: cache.Refresh{StaleIfError: 1}}, needsTTL}, {config{Refresh: cache.Refresh{StaleIfRejected: 1}}, needsTTL},
		{config{Refresh: cache.Refresh{Jitter: 0.1}}, needsTTL}, {config{Refresh: cache.Refresh{Early: 1}}, needsTTL},
	} {
		if c, err := cache.New(tt.cfg); c != nil || err == nil || err.Error() != tt.want {
			t.Errorf("%v, %v: want %s", c, err, tt.want)
		}
	}
	for _, cfg := range []config{
		{}, {Entries: cache.MaxEntries}, {Bytes: cache.MaxBytes, Cost: cost}, {TTL: 1, Refresh: cache.Refresh{Jitter: 0.999, Early: 1e9}},
		{TTLOf: func(string, int, error) time.Duration { return 0 }, Refresh: cache.Refresh{Stale: 1, StaleIfError: 1, StaleIfRejected: 1, Jitter: 0.1, Early: 1}},
		{Refresh: cache.Refresh{Background: 1, ErrorTTL: 1, Timeout: 1}},
	} {
		if _, err := cache.New(cfg); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

const needsTTL = "cache: Stale, StaleIfError, StaleIfRejected, Jitter or Early is set: needs TTL or TTLOf"
