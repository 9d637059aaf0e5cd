package deploy_test

import (
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// A workload is a Deployment or a StatefulSet.
type workload struct {
	kind, name string
	replicas   *int32
	selector   map[string]string
	pod        corev1.PodTemplateSpec
	set        *appsv1.StatefulSet // nil for a Deployment
	deployment *appsv1.Deployment  // nil for a StatefulSet
}

// objects are the objects of a manifest, by kind.
type objects struct {
	workloads   []workload
	services    []*corev1.Service
	configMaps  []*corev1.ConfigMap
	secrets     []*corev1.Secret
	claims      []*corev1.PersistentVolumeClaim
	accounts    []*corev1.ServiceAccount
	roles       []*rbacv1.Role
	bindings    []*rbacv1.RoleBinding
	autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	disruptions []*policyv1.PodDisruptionBudget
	networks    []*networkingv1.NetworkPolicy
	monitors    []*monitoringv1.ServiceMonitor
	podMonitors []*monitoringv1.PodMonitor
	alerts      []*monitoringv1.PrometheusRule
	all         []runtime.Object
}

// decode decodes documents strictly: a field that is unknown, or there twice, is an error.
func decode(t *testing.T, docs []string) (o objects) {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientscheme.AddToScheme(scheme))
	must(t, monitoringv1.AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, doc := range docs {
		object, _, err := decoder.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Errorf("%v in\n%s", err, doc)
			continue
		}
		o.all = append(o.all, object)
		o.add(t, object)
	}
	return o
}

// rules returns the files of rules of the manifest; nil if it has none.
func (o objects) rules() map[string]string {
	if i := slices.IndexFunc(o.configMaps, func(c *corev1.ConfigMap) bool { return strings.HasSuffix(c.Name, "-rules") }); i >= 0 {
		return o.configMaps[i].Data
	}
	return nil
}

func (o *objects) add(t *testing.T, object runtime.Object) {
	t.Helper()
	switch x := object.(type) {
	case *appsv1.Deployment:
		o.workloads = append(o.workloads, workload{"Deployment", x.Name, x.Spec.Replicas, x.Spec.Selector.MatchLabels, x.Spec.Template, nil, x})
	case *appsv1.StatefulSet:
		o.workloads = append(o.workloads, workload{"StatefulSet", x.Name, x.Spec.Replicas, x.Spec.Selector.MatchLabels, x.Spec.Template, x, nil})
	case *corev1.Service:
		o.services = append(o.services, x)
	case *corev1.ConfigMap:
		o.configMaps = append(o.configMaps, x)
	case *corev1.Secret:
		o.secrets = append(o.secrets, x)
	case *corev1.PersistentVolumeClaim:
		o.claims = append(o.claims, x)
	case *corev1.ServiceAccount:
		o.accounts = append(o.accounts, x)
	case *rbacv1.Role:
		o.roles = append(o.roles, x)
	case *rbacv1.RoleBinding:
		o.bindings = append(o.bindings, x)
	case *autoscalingv2.HorizontalPodAutoscaler:
		o.autoscalers = append(o.autoscalers, x)
	case *policyv1.PodDisruptionBudget:
		o.disruptions = append(o.disruptions, x)
	case *networkingv1.NetworkPolicy:
		o.networks = append(o.networks, x)
	case *monitoringv1.ServiceMonitor:
		o.monitors = append(o.monitors, x)
	case *monitoringv1.PrometheusRule:
		o.alerts = append(o.alerts, x)
	case *monitoringv1.PodMonitor:
		o.podMonitors = append(o.podMonitors, x)
	default:
		t.Errorf("%T: an object that the test does not know", x)
	}
}
