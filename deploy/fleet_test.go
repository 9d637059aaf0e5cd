package deploy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// allowed asks the instances in turn for tokens of a key, and counts the requests that are allowed.
func allowed(t *testing.T, fleet []*process, key string, requests int) (n int) {
	t.Helper()
	for i := range requests {
		resp, err := http.Post(fleet[i%len(fleet)].public+"/rate/"+key, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
			n++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("POST /rate/%s: %s", key, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	return n
}

// imageCommand returns the command of the image, with each flag and its value as one word.
func imageCommand(t *testing.T) (args []string) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	if err := json.Unmarshal(regexp.MustCompile(`(?m)^CMD (.*)$`).FindSubmatch(text)[1], &words); err != nil {
		t.Fatal(err)
	}
	for _, word := range words {
		if last := len(args) - 1; last >= 0 && strings.HasPrefix(args[last], "--") && !strings.HasPrefix(word, "--") {
			args[last] += "=" + word
			continue
		}
		args = append(args, word)
	}
	if !strings.Contains(string(text), "\nENV PORT=8080\n") {
		t.Error("the image has another port than GoCC")
	}
	return args
}

// A StatefulSet of GoCC runs weir if its image changes, and its limits hold over the fleet.
func TestFromGoCC(t *testing.T) {
	text, err := os.ReadFile("testdata/gocc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := decode(t, []string{string(text)})
	w := &o.workloads[0]
	w.container().Args = imageCommand(t)
	ports := freePorts(t, int(*w.replicas))
	hosts := peerHosts(w, ports, "")
	var fleet []*process
	for i, port := range ports {
		c := contain(t, o, w, podName(w, i), port, hosts)
		c.env = append(c.env, "WEIR_LISTEN="+port) // instead of PORT, which is a port of all addresses
		if err := os.MkdirAll(c.dir+"/var/lib/weir", 0o755); err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, c.start(t))
	}
	client := &http.Client{}
	for _, p := range fleet {
		awaitReady(t, client, p, http.StatusOK)
		awaitPeers(t, p, len(fleet))
		if resp, err := client.Get(p.public + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("/healthz: %v, %v", resp, err)
		}
	}
	client.CloseIdleConnections()
	total, degraded := 0, 0
	for _, key := range []string{"a", "b", "c", "d"} {
		total += allowed(t, fleet, key, 60)
	}
	for _, p := range fleet {
		degraded += metric(t, p, `weir_peer_decisions_total{name="serve",step="share"}`)
	}
	if total < 4*20 || total > 4*20+degraded {
		t.Errorf("%d of 240 requests for 4 keys are allowed: want 20 for each, and no more than the %d without the owner of a key", total, degraded)
	}
	stop(t, fleet)
}

// awaitPeers waits until an instance sees a number of peers, itself included.
func awaitPeers(t *testing.T, p *process, n int) {
	t.Helper()
	for range 300 {
		if metric(t, p, `weir_peer_members{name="serve",status="live"}`) == n {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s: not %d peers", p.admin, n)
}

// metric returns the value of a metric.
func metric(t *testing.T, p *process, name string) int {
	t.Helper()
	resp, err := http.Get(p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n"+name+" ")
	value, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s = %q", name, value)
	}
	return n
}
