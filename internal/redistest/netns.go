package redistest

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// A Network is a network namespace with a link to the namespace of the test.
type Network struct {
	t    testing.TB
	name string // of the namespace and, with a or b, of the ends of the link
	host string // its address
}

// NewNetwork returns a Network, which is deleted when the test ends. It takes a user that may
// create network namespaces, as root may.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	n := &Network{t: t, name: fmt.Sprintf("weir%08x", rand.Uint32())}
	subnet, even := fmt.Sprintf("198.18.%d.", rand.N(256)), 2*rand.N(128) // for tests of networks: RFC 2544
	here := fmt.Sprint(subnet, even)
	n.host = fmt.Sprint(subnet, even+1)
	a, b := n.name+"a", n.name+"b"
	for i, command := range []string{
		"netns add " + n.name,
		"link add " + a + " type veth peer name " + b + " netns " + n.name,
		"address add " + here + "/31 dev " + a,
		"link set " + a + " up",
		"-n " + n.name + " address add " + n.host + "/31 dev " + b,
		"-n " + n.name + " link set lo up",
		"-n " + n.name + " link set " + b + " up",
	} {
		output, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
		if err != nil {
			t.Fatalf("no network namespace (run as root): ip %s: %v: %s", command, err, output)
		}
		if i == 0 {
			t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", n.name).Run() })
		}
	}
	return n
}

// Start is the function Start for a server in the Network.
func (n *Network) Start(engine string, args ...string) *Server {
	n.t.Helper()
	s := prepare(n.t, engine, n.host, append([]string{"--protected-mode", "no"}, args...))
	s.prefix = []string{"ip", "netns", "exec", n.name}
	s.Run()
	return s
}

// Cut drops all packets from now on, or lets them through again.
func (n *Network) Cut(on bool) {
	n.t.Helper()
	state := "up"
	if on {
		state = "down"
	}
	if output, err := exec.Command("ip", "-n", n.name, "link", "set", n.name+"b", state).CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %s", err, output)
	}
}
