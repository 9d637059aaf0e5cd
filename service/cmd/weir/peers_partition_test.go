//go:build system

package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// separate puts each member in its own network namespace, before any is started. It takes a
// user that may create network namespaces, as root may.
func (f *peerFleet) separate() {
	f.t.Helper()
	name, subnet := fmt.Sprintf("w%06x", rand.N(1<<24)), fmt.Sprintf("198.19.%d.", rand.N(256)) // for tests of networks: RFC 2544
	f.ip("link add " + name + " type bridge")
	f.t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", name).Run() })
	f.ip("address add " + subnet + "254/24 dev " + name)
	f.ip("link set " + name + " up")
	for i := range fleetSize {
		space, host := fmt.Sprint(name, i), fmt.Sprint(subnet, i+1)
		f.ip("netns add " + space)
		f.t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", space).Run() })
		f.ip("link add " + space + "a type veth peer name " + space + "b netns " + space)
		f.ip("link set " + space + "a master " + name)
		f.ip("link set " + space + "a up")
		f.ip("-n " + space + " address add " + host + "/24 dev " + space + "b")
		f.ip("-n " + space + " link set lo up")
		f.ip("-n " + space + " link set " + space + "b up")
		f.prefix[i], f.urls[i] = []string{"ip", "netns", "exec", space}, "http://"+host+":8080"
		f.admin[i] = host + ":8081"
	}
}

func (f *peerFleet) ip(command string) {
	f.t.Helper()
	if output, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
		f.t.Fatalf("ip %s (run as root): %v: %s", command, err, output)
	}
}

// cut drops all packets between two members, or lets them through again.
func (f *peerFleet) cut(a, b int, on bool) {
	f.t.Helper()
	how := "del"
	if on {
		how = "add"
	}
	for _, pair := range [][2]int{{a, b}, {b, a}} {
		host, _, _ := strings.Cut(strings.TrimPrefix(f.urls[pair[1]], "http://"), ":")
		f.ip("-n " + f.prefix[pair[0]][3] + " route " + how + " blackhole " + host + "/32")
	}
}

// Nothing passes between two of three members for some seconds. All requests are answered, also
// at the member that is cut off from the owner: by its share of the limit.
func TestPeersPartition(t *testing.T) {
	t.Parallel()
	f := newPeerFleet(t, "--rules", file(t, "rules.yaml", peerRules))
	f.separate()
	for i := range fleetSize {
		f.start(i)
	}
	f.untilStatuses("live live live", 0, 1, 2)
	key, other := f.ownedBy(1, "a"), f.ownedBy(2, "b")
	l := f.startLoad(key, other)
	time.Sleep(time.Second)
	f.cut(0, 1, true)
	f.untilStatuses("live cut live", 0)
	f.untilStatuses("cut live live", 1)
	time.Sleep(5 * time.Second)
	f.cut(0, 1, false)
	f.untilStatuses("live live live", 0, 1)
	time.Sleep(2 * time.Second)
	answers := l.stop()
	for key, most := range map[string]float64{
		key:   peerBurst + peerBurst/fleetSize + 15*peerRate/fleetSize, // the rate of a share, for the time of the partition
		other: peerBurst,
	} {
		steps, excess := answers[key].Steps(), answers[key].Excess(peerRate)
		t.Logf("%s: %v, %.1f tokens beyond the rate, at most %.0f", key, steps, excess, most)
		if excess > most {
			t.Errorf("%s: %.1f tokens beyond the rate, want at most %.0f", key, excess, most)
		}
		if steps["share"] == 0 && most > peerBurst {
			t.Errorf("%s: %v: want shares", key, steps)
		}
	}
}
