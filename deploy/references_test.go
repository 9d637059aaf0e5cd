package deploy_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// A checker reports the faults of the objects of one manifest.
type checker struct {
	*testing.T
	objects
	name         string
	mode         string
	destinations []networkingv1.NetworkPolicyPeer // of the values
}

// check checks what the objects say about each other.
func (o objects) check(t *testing.T, name string, v values) {
	t.Helper()
	mode, _ := v["mode"].(string)
	if mode == "" {
		mode = "single"
	}
	var policy struct {
		NetworkPolicy struct {
			Destinations []networkingv1.NetworkPolicyPeer
		}
	}
	if text, err := yaml.Marshal(v); err != nil || yaml.Unmarshal(text, &policy) != nil {
		t.Fatalf("%v: %v", v, err)
	}
	c := checker{t, o, name, mode, policy.NetworkPolicy.Destinations}
	if len(o.workloads) == 0 {
		t.Errorf("%s: no workload", name)
	}
	c.checkNames()
	for i := range o.workloads {
		c.checkWorkload(&o.workloads[i])
		c.checkShutdown(&o.workloads[i])
		c.checkVolumes(&o.workloads[i])
		c.checkEnvironment(&o.workloads[i])
		c.checkSecurity(o.workloads[i].pod.Spec)
	}
	c.checkServices()
	c.checkAutoscalers()
	c.checkDisruptions()
	c.checkNetwork()
	c.checkMonitors()
	c.checkAccounts()
	c.checkAlerts()
}

// job returns the job of Prometheus, by which alerts find the metrics.
func (c checker) job() string {
	if c.mode == "proxy" {
		return "weir-proxy"
	}
	return "weir"
}

func (c checker) fault(format string, args ...any) {
	c.Helper()
	c.Errorf(c.name+": "+format, args...)
}

// Two objects of one kind have different names, and all have the labels of the release.
func (c checker) checkNames() {
	seen := map[string]bool{}
	for _, object := range c.all {
		m, err := meta.Accessor(object)
		if err != nil {
			c.Fatal(err)
		}
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if seen[kind+m.GetName()] {
			c.fault("%s %s is there twice", kind, m.GetName())
		}
		seen[kind+m.GetName()] = true
		if problems := validation.IsDNS1123Label(m.GetName()); problems != nil || m.GetNamespace() != "" {
			c.fault("%s %s/%s: %v: want a name, and no namespace", kind, m.GetNamespace(), m.GetName(), problems)
		}
		if l := m.GetLabels(); l["app.kubernetes.io/name"] != c.job() || l["app.kubernetes.io/instance"] == "" {
			c.fault("%s %s has labels %v", kind, m.GetName(), l)
		}
	}
}

// A workload selects its own pods, and no other's.
func (c checker) checkWorkload(w *workload) {
	for _, other := range c.workloads {
		if own, selected := w.name == other.name, selects(w.selector, other.pod.Labels); own != selected {
			c.fault("%s %s selects the pods of %s: %v", w.kind, w.name, other.name, selected)
		}
	}
	if want := map[string]string{"peers": "StatefulSet"}[c.mode]; w.kind != "Deployment" && w.kind != want {
		c.fault("%s in mode %s", w.kind, c.mode)
	}
	for _, s := range w.pod.Spec.TopologySpreadConstraints {
		if !selects(s.LabelSelector.MatchLabels, w.pod.Labels) {
			c.fault("a topologySpreadConstraint selects %v", s.LabelSelector.MatchLabels)
		}
	}
	main := w.container()
	for _, port := range []intstr.IntOrString{main.ReadinessProbe.HTTPGet.Port, main.LivenessProbe.HTTPGet.Port} {
		if port.String() != "admin" || w.port("admin") == 0 {
			c.fault("a probe at port %s", port.String())
		}
	}
	for flag, port := range map[string]string{"--listen": "http", "--admin": "admin", "--resp-listen": "resp", "--grpc-listen": "grpc"} {
		if want := w.port(port); want != 0 && w.flag(flag) != ":"+strconv.Itoa(int(want)) || want == 0 && w.flag(flag) != "" {
			c.fault("%s = %s: want port %d", flag, w.flag(flag), want)
		}
	}
	if w.deployment != nil && c.mode != "single" && w.deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		c.fault("%s: want no instance less during an update", w.name)
	}
	if w.set != nil {
		c.checkPeers(w)
		if w.replicas != nil && *w.replicas < 3 {
			c.fault("%d peers: want three", *w.replicas)
		}
	}
	if image := main.Image; strings.HasSuffix(image, ":latest") || !strings.ContainsAny(image, ":@") {
		c.fault("the image %s has no version", image)
	}
}

// The peers are listed by the names that the headless Service gives them, and it has them
// before they are ready.
func (c checker) checkPeers(w *workload) {
	headless := c.service(w.set.Spec.ServiceName)
	if headless == nil || headless.Spec.ClusterIP != "None" || !headless.Spec.PublishNotReadyAddresses || len(headless.Spec.Ports) != 1 ||
		headless.Spec.Ports[0].Port != w.port("http") {
		c.fault("Service %s: want a headless Service that has also pods that are not ready, with the port of the pods", w.set.Spec.ServiceName)
		return
	}
	scheme := "http"
	if w.flag("--tls-cert") != "" {
		scheme = "https"
	}
	address := "://" + headless.Name + ":" + strconv.Itoa(int(w.port("http")))
	if (w.flag("--peer-ca") != "") != (scheme == "https") {
		c.fault("--peer-ca = %q with %s", w.flag("--peer-ca"), scheme)
	}
	switch peers := w.flag("--peers"); peers {
	case "dns+" + scheme + address:
	case strings.TrimSuffix("kubernetes+"+scheme, "+http") + address:
		if self := w.flag("--self"); self != "$(POD_NAME)" {
			c.fault("--self = %s: want the name of the pod", self)
		}
	default:
		var want []string
		for i := range *w.replicas {
			want = append(want, scheme+"://"+w.name+"-"+strconv.Itoa(int(i))+"."+strings.TrimPrefix(address, "://"))
		}
		if peers != strings.Join(want, ",") {
			c.fault("--peers = %s: want %s", peers, want)
		}
		if self := w.flag("--self"); strings.ReplaceAll(self, "$(POD_NAME)", w.name+"-0") != want[0] {
			c.fault("--self = %s: want one of %s", self, want)
		}
	}
	if strings.HasPrefix(w.flag("--peers"), "kubernetes") != *w.pod.Spec.AutomountServiceAccountToken {
		c.fault("automountServiceAccountToken = %v with --peers=%s", *w.pod.Spec.AutomountServiceAccountToken, w.flag("--peers"))
	}
}

// Kubernetes waits until the server has drained.
func (c checker) checkShutdown(w *workload) {
	sum := time.Duration(w.container().Lifecycle.PreStop.Sleep.Seconds) * time.Second
	for _, flag := range []string{"--drain-delay", "--grace"} {
		d, err := time.ParseDuration(w.flag(flag))
		if err != nil {
			c.fault("%s: %v", flag, err)
		}
		sum += d
	}
	if grace := time.Duration(*w.pod.Spec.TerminationGracePeriodSeconds) * time.Second; grace < sum+10*time.Second {
		c.fault("%v to end: want preStop, --drain-delay and --grace, which are %v, and some more", grace, sum)
	}
}

func (c checker) checkSecurity(pod corev1.PodSpec) {
	s, main := pod.SecurityContext, pod.Containers[0].SecurityContext
	if !*s.RunAsNonRoot || *s.RunAsUser == 0 || *s.FSGroup != *s.RunAsGroup || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*main.AllowPrivilegeEscalation || !*main.ReadOnlyRootFilesystem || !slices.Equal(main.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		*pod.EnableServiceLinks || pod.Containers[0].Resources.Limits.Memory().IsZero() {
		c.fault("%+v %+v: want a pod without rights, and bounded memory", s, main)
	}
}

// Services select pods, and their ports exist in the pods.
func (c checker) checkServices() {
	for _, s := range c.services {
		for _, w := range c.workloads {
			if !selects(s.Spec.Selector, w.pod.Labels) {
				c.fault("Service %s does not select %s", s.Name, w.name)
			}
			for _, p := range s.Spec.Ports {
				if w.port(p.TargetPort.String()) == 0 {
					c.fault("Service %s: %s has no port %s", s.Name, w.name, p.TargetPort.String())
				}
				if admin := strings.HasSuffix(s.Name, "-admin"); admin != (p.TargetPort.String() == "admin") {
					c.fault("Service %s has port %s", s.Name, p.TargetPort.String())
				}
			}
		}
	}
}

func (c checker) checkAutoscalers() {
	scaled := map[string]bool{}
	for _, a := range c.autoscalers {
		target := a.Spec.ScaleTargetRef
		scaled[target.Kind+target.Name] = true
		if target.APIVersion != "apps/v1" || *a.Spec.MinReplicas > a.Spec.MaxReplicas || c.mode == "peers" && *a.Spec.MinReplicas < 3 ||
			!slices.ContainsFunc(c.workloads, func(w workload) bool { return w.kind == target.Kind && w.name == target.Name }) {
			c.fault("HorizontalPodAutoscaler %s: %+v: no such workload, or no such range", a.Name, a.Spec)
		}
	}
	for _, w := range c.workloads {
		on := scaled[w.kind+w.name]
		if on != (w.replicas == nil) || on && w.container().Resources.Requests.Cpu().IsZero() || len(c.autoscalers) != len(scaled) {
			c.fault("%s: autoscaled: %v, replicas: %v: want one of both, and a request of processors", w.name, on, w.replicas)
		}
	}
}

func (c checker) checkDisruptions() {
	for _, d := range c.disruptions {
		for _, w := range c.workloads {
			if !selects(d.Spec.Selector.MatchLabels, w.pod.Labels) || d.Spec.MaxUnavailable.IntValue() < 1 ||
				d.Spec.UnhealthyPodEvictionPolicy == nil || *d.Spec.UnhealthyPodEvictionPolicy != policyv1.AlwaysAllow {
				c.fault("PodDisruptionBudget: %+v: want the pods, and at least one of them at a time, ready or not", d.Spec)
			}
		}
	}
}

// selects tells if a selector, which must not be empty, selects labels.
func selects(selector, have map[string]string) bool {
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(have))
}

// outside tells if the values name a Secret that is not one of the manifest.
func (c checker) outside(name string) bool { return given(name) || plain[c.name].values != "" }

// given tells if an object is one that the values name, not one of the chart.
func given(name string) bool { return strings.HasPrefix(name, "given-") }

func hasName[T metav1.Object](name string) func(T) bool {
	return func(object T) bool { return object.GetName() == name }
}

func (o objects) service(name string) *corev1.Service {
	if i := slices.IndexFunc(o.services, hasName[*corev1.Service](name)); i >= 0 {
		return o.services[i]
	}
	return nil
}

func (w *workload) container() *corev1.Container { return &w.pod.Spec.Containers[0] }

// port returns the number of a port of the container, or 0.
func (w *workload) port(name string) int32 {
	for _, p := range w.container().Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

// flag returns the value of a flag of weir serve, or "".
func (w *workload) flag(name string) string {
	for _, arg := range w.container().Args {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			return value
		}
	}
	return ""
}

// keys returns the keys of a Secret of the manifest.
func keys(s *corev1.Secret) []string {
	return append(slices.Collect(maps.Keys(s.Data)), slices.Collect(maps.Keys(s.StringData))...)
}

// podName returns the name of a pod of a StatefulSet.
func podName(w *workload, i int) string { return w.name + "-" + strconv.Itoa(i) }
