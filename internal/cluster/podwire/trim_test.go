// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	"bytes"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

// slim is what must be read of a pod, stated again without the field numbers.
func slim(pod *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{
		TypeMeta: pod.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name:              pod.Name,
			Namespace:         pod.Namespace,
			UID:               pod.UID,
			ResourceVersion:   pod.ResourceVersion,
			Generation:        pod.Generation,
			CreationTimestamp: pod.CreationTimestamp,
			DeletionTimestamp: pod.DeletionTimestamp,

			DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, Tolerations: pod.Spec.Tolerations, Priority: pod.Spec.Priority},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions},
	}
	for key, value := range pod.Annotations {
		if key == "kubernetes.io/config.mirror" || key == "k8s.io/initial-events-end" {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	if value, ok := pod.Labels["tier"]; ok {
		kept.Labels = map[string]string{"tier": value}
	}
	return kept
}

func slimObject(object runtime.Object) runtime.Object {
	switch object := object.(type) {
	case *corev1.Pod:
		return slim(object)
	case *corev1.PodList:
		kept := &corev1.PodList{TypeMeta: object.TypeMeta, ListMeta: object.ListMeta}
		for i := range object.Items {
			kept.Items = append(kept.Items, *slim(&object.Items[i]))
		}
		return kept
	}
	return object
}

// serializers returns client-go's serializers of protobuf, for objects and for the events of a watch.
func serializers(t testing.TB, from runtime.NegotiatedSerializer) (object, event runtime.Serializer) {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(from.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("there is no serializer for protobuf")
	}
	return info.Serializer, info.StreamSerializer.Serializer
}

func ordinary() runtime.NegotiatedSerializer { return scheme.Codecs.WithoutConversion() }

// kept are the labels that the clients of these tests decode.
var kept = keeping("tier")

func keeping(keys ...string) *Labels {
	kept := &Labels{}
	kept.Keep(keys)
	return kept
}

func ours() codecs { return codecs{ordinary(), objectFields(kept)} }

// difference is empty if two objects are equal. Nil and empty lists count as equal.
func difference(want, got runtime.Object) string {
	if equality.Semantic.DeepEqual(want, got) { // much faster
		return ""
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

// checkObject: what ordinary decoding reads is read, as far as it is needed; what it refuses is refused, or the
// fault is in what is not needed.
func checkObject(t *testing.T, wire []byte) {
	t.Helper()
	before := bytes.Clone(wire)
	fully, _ := serializers(t, ordinary())
	trimming, _ := serializers(t, ours())
	full, fullType, err := fully.Decode(wire, nil, nil)
	got, gotType, gotErr := trimming.Decode(wire, nil, nil)
	if !bytes.Equal(before, wire) {
		t.Fatal("decoding changed the bytes")
	}
	if err != nil {
		return
	}
	if gotErr != nil {
		t.Fatalf("an error, where ordinary decoding has none: %v", gotErr)
	}
	if diff := cmp.Diff(fullType, gotType); diff != "" {
		t.Errorf("another type (-want +got):\n%s", diff)
	}
	if diff := difference(slimObject(full), slimObject(got)); diff != "" {
		t.Errorf("another object (-want +got):\n%s", diff)
	}
}

// trimmed returns what is kept of a message, or the message as it is if it cannot be parsed.
func trimmed(wire []byte, as *message) []byte {
	if kept, err := appendKept(nil, wire, as); err == nil {
		return kept
	}
	return wire
}

// checkSlim: nothing is read that is not needed.
func checkSlim(t *testing.T, wire []byte) {
	t.Helper()
	trimming, _ := serializers(t, ours())
	got, _, err := trimming.Decode(wire, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := difference(slimObject(got), got); diff != "" {
		t.Errorf("more than is needed (-want +got):\n%s", diff)
	}
	if again := trimmed(trimmed(wire, objectFields(kept)), objectFields(kept)); !bytes.Equal(trimmed(wire, objectFields(kept)), again) {
		t.Error("what was left was trimmed once more")
	}
}

func checkEvent(t *testing.T, wire []byte) {
	t.Helper()
	_, fully := serializers(t, ordinary())
	_, trimming := serializers(t, ours())
	var full, got metav1.WatchEvent
	if _, _, err := fully.Decode(wire, nil, &full); err != nil {
		return
	}
	if _, _, err := trimming.Decode(wire, nil, &got); err != nil {
		t.Fatalf("an error, where ordinary decoding has none: %v", err)
	}
	if full.Type != got.Type {
		t.Errorf("event %q, want %q", got.Type, full.Type)
	}
	decode, _ := serializers(t, ordinary())
	want, _, err := decode.Decode(full.Object.Raw, nil, nil)
	if err != nil {
		return
	}
	object, _, err := decode.Decode(got.Object.Raw, nil, nil)
	if err != nil {
		t.Fatalf("an error of the object, where ordinary decoding has none: %v", err)
	}
	if diff := difference(slimObject(want), slimObject(object)); diff != "" {
		t.Errorf("another object (-want +got):\n%s", diff)
	}
}

func encoded(t testing.TB, object runtime.Object, kind string) []byte {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	var wire bytes.Buffer
	serializer, _ := serializers(t, ordinary())
	if err := serializer.Encode(object, &wire); err != nil {
		t.Fatal(err)
	}
	return wire.Bytes()
}

func encodedEvent(t testing.TB, kind string, object []byte) []byte {
	t.Helper()
	wire, err := (&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// golden returns Kubernetes' own test data: objects with every field set, as several versions wrote them.
func golden(t testing.TB, pattern string) [][]byte {
	t.Helper()
	directory, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("find the module k8s.io/api: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(directory)), "testdata", "*", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data %s in k8s.io/api (%v)", pattern, err)
	}
	var all [][]byte
	for _, file := range files {
		wire, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, wire)
	}
	return all
}

func TestTheGoldenFilesOfKubernetesAreReadAsKubernetesReadsThem(t *testing.T) {
	pods := golden(t, "core.v1.Pod.*pb")
	if len(pods) < 4 {
		t.Errorf("%d golden pods, want those of several versions", len(pods))
	}
	serializer, _ := serializers(t, ours())
	for _, wire := range pods {
		checkObject(t, wire)
		checkSlim(t, wire)
		checkEvent(t, encodedEvent(t, "MODIFIED", wire))
		object, _, err := serializer.Decode(wire, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		pod := object.(*corev1.Pod)
		if pod.Name == "" || pod.Spec.NodeName == "" || len(pod.Spec.Tolerations) == 0 || pod.Spec.Containers != nil || pod.Labels != nil {
			t.Errorf("it was not read, or not only what is needed: %v", pod)
		}
	}
}

func TestObjectsThatAreNotPodsAreReadAsUsual(t *testing.T) {
	pod := marshalled(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}})
	named := func(apiVersion, kind string) []byte {
		wire, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: pod}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return append(bytes.Clone(envelopePrefix), wire...)
	}
	others := golden(t, "core.v1.[E-N]*.pb")
	others = append(others, golden(t, "core.v1.PodTemplate.pb")...)
	others = append(others, named("example.com/v1", "Pod"), named("v2", "Pod"), named("v1", "Podlet"), named("", ""), []byte(`{"kind":"Pod"}`), nil)
	for _, wire := range others {
		event := encodedEvent(t, "ADDED", wire)
		if !bytes.Equal(trimmed(wire, objectFields(kept)), wire) || !bytes.Equal(trimmed(event, eventFields(objectFields(kept))), event) {
			t.Errorf("something was cut out of %.60q", wire)
		}
	}
}

// FuzzPods makes pods with every kind of field, encoded as the API server encodes them, and then with the fields of
// every message in any order, repeated, taken from other pods, and among unknown ones.
func FuzzPods(f *testing.F) {
	for seed := range int64(20) {
		f.Add(seed)
	}
	random := rand.New(rand.NewSource(0))
	filler := fuzzer.FuzzerFor(metafuzzer.Funcs, random, scheme.Codecs)
	f.Fuzz(func(t *testing.T, seed int64) {
		random.Seed(seed)
		pod, other := randomPod(filler, random), randomPod(filler, random)
		wire := encoded(t, pod, "Pod")
		checkObject(t, wire)
		checkSlim(t, wire)
		checkEvent(t, encodedEvent(t, "ADDED", wire))

		list := &corev1.PodList{Items: []corev1.Pod{*pod, *other}}
		filler.Fill(&list.ListMeta)
		wire = encoded(t, list, "PodList")
		checkObject(t, wire)
		checkSlim(t, wire)

		scrambled := enclosed(t, scrambler{random}.scramble(marshalled(t, pod), marshalled(t, other), podFields(kept)))
		checkObject(t, scrambled)
		checkSlim(t, scrambled)
		checkEvent(t, encodedEvent(t, "DELETED", scrambled))
	})
}

func marshalled(t testing.TB, pod *corev1.Pod) []byte {
	t.Helper()
	wire, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// enclosed puts a pod into the API server's envelope.
func enclosed(t *testing.T, pod []byte) []byte {
	t.Helper()
	wire, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: pod}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(envelopePrefix), wire...)
}

func randomPod(filler *randfill.Filler, random *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{}
	filler.Fill(pod)
	for _, key := range []string{corev1.MirrorPodAnnotationKey, metav1.InitialEventsAnnotationKey} {
		if random.Intn(2) == 0 {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, "true")
		}
	}
	if random.Intn(2) == 0 {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, "tier", "db")
	}
	return pod
}

// scrambler turns a message into a different one that Kubernetes can also read.
type scrambler struct{ random *rand.Rand }

func (s scrambler) scramble(wire, other []byte, as *message) []byte {
	fields, others := s.split(wire), s.split(other)
	all := append([]field(nil), fields...)
	for range s.random.Intn(4) {
		from := [][]field{fields, others}[s.random.Intn(2)]
		if len(from) > 0 {
			all = append(all, from[s.random.Intn(len(from))])
		}
	}
	s.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var to []byte
	for _, f := range all {
		to = s.appendUnknown(to)
		nested := as.field(f.number)
		if nested == nil || nested.fields == nil {
			to = append(to, f.encoded...)
			continue
		}
		to = protowire.AppendTag(to, f.number, protowire.BytesType)
		to = protowire.AppendBytes(to, s.scramble(f.value, f.value, nested))
	}
	return s.appendUnknown(to)
}

func (s scrambler) split(wire []byte) (fields []field) {
	for len(wire) > 0 {
		f, rest, err := next(wire)
		if err != nil {
			panic(err)
		}
		fields, wire = append(fields, f), rest
	}
	return fields
}

func (s scrambler) appendUnknown(to []byte) []byte {
	number := protowire.Number(1000 + s.random.Intn(1000))
	switch s.random.Intn(12) {
	case 0:
		return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), s.random.Uint64())
	case 1:
		return protowire.AppendFixed32(protowire.AppendTag(to, number, protowire.Fixed32Type), s.random.Uint32())
	case 2:
		return protowire.AppendFixed64(protowire.AppendTag(to, number, protowire.Fixed64Type), s.random.Uint64())
	case 3:
		return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), "unknown")
	case 4:
		to = protowire.AppendTag(to, number, protowire.StartGroupType)
		to = protowire.AppendVarint(protowire.AppendTag(to, 1, protowire.VarintType), 1)
		return protowire.AppendTag(to, number, protowire.EndGroupType)
	}
	return to
}

// FuzzWire reads any bytes: as an object, as an event, and as a pod in an envelope that says so.
func FuzzWire(f *testing.F) {
	for _, wire := range append(golden(f, "core.v1.Pod.*pb"), golden(f, "core.v1.Node.pb")...) {
		f.Add(wire)
		f.Add(encodedEvent(f, "MODIFIED", wire))
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "b", "c": "d"}},
		Spec:       corev1.PodSpec{NodeName: "n", Tolerations: []corev1.Toleration{{Key: "k"}}, Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady}}},
	}
	f.Add(marshalled(f, pod))
	f.Add(encoded(f, pod, "Pod"))
	f.Add(encodedEvent(f, "ADDED", encoded(f, pod, "Pod")))
	f.Add(encoded(f, &corev1.PodList{Items: []corev1.Pod{*pod, *pod}}, "PodList"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		checkObject(t, wire)
		checkEvent(t, wire)
		checkObject(t, enclosed(t, wire))
	})
}
