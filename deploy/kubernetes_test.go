package deploy_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of kubernetes/weir.yaml.
type manifests struct {
	rules      corev1.ConfigMap
	state      corev1.PersistentVolumeClaim
	deployment appsv1.Deployment
	service    corev1.Service
	network    networkingv1.NetworkPolicy
	disruption policyv1.PodDisruptionBudget
}

// read decodes them strictly: an unknown field is an error.
func read(t *testing.T) (m manifests) {
	t.Helper()
	text, err := os.ReadFile("kubernetes/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	into := map[string]any{
		"v1 ConfigMap": &m.rules, "v1 PersistentVolumeClaim": &m.state, "apps/v1 Deployment": &m.deployment, "v1 Service": &m.service,
		"networking.k8s.io/v1 NetworkPolicy": &m.network, "policy/v1 PodDisruptionBudget": &m.disruption,
	}
	for _, doc := range strings.Split(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		name := kind.APIVersion + " " + kind.Kind
		if into[name] == nil {
			t.Errorf("%q: unknown, or there twice", name)
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(doc), into[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(into, name)
	}
	if len(into) > 0 {
		t.Errorf("%v: not there", slices.Collect(maps.Keys(into)))
	}
	return m
}

func TestManifests(t *testing.T) {
	m := read(t)
	pod := m.deployment.Spec.Template
	c := pod.Spec.Containers[0]
	for name, selector := range map[string]map[string]string{
		"Deployment": m.deployment.Spec.Selector.MatchLabels, "Service": m.service.Spec.Selector,
		"NetworkPolicy": m.network.Spec.PodSelector.MatchLabels, "PodDisruptionBudget": m.disruption.Spec.Selector.MatchLabels,
	} {
		for label, value := range selector {
			if len(selector) == 0 || pod.Labels[label] != value {
				t.Errorf("%s selects %s = %s: not the pod", name, label, value)
			}
		}
	}
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	used := []intstr.IntOrString{m.service.Spec.Ports[0].TargetPort, c.ReadinessProbe.HTTPGet.Port, c.LivenessProbe.HTTPGet.Port}
	for _, rule := range m.network.Spec.Ingress {
		used = append(used, *rule.Ports[0].Port)
	}
	for _, port := range used {
		if !ports[port.String()] {
			t.Errorf("port %s: the container has none of this name", port.String())
		}
	}
	if v := pod.Spec.Volumes[0]; v.ConfigMap.Name != m.rules.Name || c.VolumeMounts[0].Name != v.Name || c.VolumeMounts[0].SubPath != "" ||
		!slices.Contains(c.Args, "--rules="+c.VolumeMounts[0].MountPath) {
		t.Errorf("%+v: want the rules where --rules looks, as a directory", v)
	}
	if v, mount := pod.Spec.Volumes[1], c.VolumeMounts[1]; v.PersistentVolumeClaim.ClaimName != m.state.Name || mount.Name != v.Name || mount.ReadOnly ||
		!slices.Contains(c.Args, "--state="+mount.MountPath+"/state") || *pod.Spec.SecurityContext.FSGroup != *pod.Spec.SecurityContext.RunAsGroup {
		t.Errorf("%+v: want the state on a volume that the container can write to", v)
	}
	if grace := *pod.Spec.TerminationGracePeriodSeconds; grace < c.Lifecycle.PreStop.Sleep.Seconds+30+10 {
		t.Errorf("%d s to end: want preStop, --grace, and some more", grace)
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(m.rules.Data["rules.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "run", "-C", "../service", "./cmd/weir", "check", rules).CombinedOutput(); err != nil {
		t.Errorf("weir check: %v\n%s", err, out)
	}
}

func TestPodMonitor(t *testing.T) {
	m := read(t)
	text, err := os.ReadFile("kubernetes/podmonitor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The part of the operator's type that is used here.
	var monitor struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Spec            struct {
			JobLabel            string               `json:"jobLabel"`
			Selector            metav1.LabelSelector `json:"selector"`
			PodMetricsEndpoints []struct {
				Port, Path, Interval string
			} `json:"podMetricsEndpoints"`
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(text, &monitor); err != nil {
		t.Fatal(err)
	}
	pod := m.deployment.Spec.Template
	if !maps.Equal(monitor.Spec.Selector.MatchLabels, m.deployment.Spec.Selector.MatchLabels) || pod.Labels[monitor.Spec.JobLabel] != "weir" {
		t.Errorf("%+v: want the pod, as job weir", monitor.Spec)
	}
	if e := monitor.Spec.PodMetricsEndpoints[0]; e.Port != "admin" || e.Path != "/metrics" {
		t.Errorf("%+v: want the admin port", e)
	}
}
