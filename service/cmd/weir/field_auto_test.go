//go:build system

package main

import (
	"testing"
	"time"
)

// Four proxies with the limit auto, before one origin of 20 workers, at 1.5 of its
// capacity, with clients that wait for half a second. The limits keep the origin busy
// and its queue short.
func TestFieldFourProxies(t *testing.T) {
	d := 4 * fieldTime(t) // each limiter drains every eight seconds, and raises every four
	c := newCrew(fieldWorkers, fieldTakes)
	s := newService(t, c)
	name := binary(t)
	var proxies []string
	for range 4 {
		listen, _ := startProxy(t, name, s.url())
		proxies = append(proxies, listen)
	}
	fieldLoad(t.Context(), 1.5*fieldCapacity, d, time.Second/2, nil, proxies...) // to find the limits
	f := fieldLoad(t.Context(), 1.5*fieldCapacity, d, time.Second/2, nil, proxies...)
	t.Logf("capacity %.0f/s; %v", c.capacity(), f)
	if got, want := float64(f.ok)/d.Seconds(), 0.93*c.capacity(); got < want {
		t.Errorf("%.0f/s served in time: want %.0f", got, want)
	}
}

// The origin is down for a moment, or for a second, and the limit is auto.
func TestFieldOriginDownForAMomentAuto(t *testing.T) { originDown(t, "auto", 200*time.Millisecond) }
func TestFieldOriginDownForASecondAuto(t *testing.T) { originDown(t, "auto", time.Second) }

// weirlab origin is killed, and started again on the same port.
func TestFieldOriginKilledAuto(t *testing.T) { originKilled(t, "auto") }
