// Copyright The Taintkeeper Authors.
// SPDX-License-Identifier: Apache-2.0

package taints_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/taintkeeper/taintkeeper/taints"
)

var (
	key63    = strings.Repeat("k", 63)
	prefix63 = strings.Repeat("p", 63)
	// prefix253 is the longest DNS subdomain there is: labels of 63 characters would make it 255.
	prefix253 = prefix63 + "." + prefix63 + "." + prefix63 + "." + strings.Repeat("p", 61)
)

// taint is a shorthand for tables: the taint that a spec describes.
func taint(t *testing.T, spec string) corev1.Taint {
	t.Helper()
	parsed, err := taints.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func list(t *testing.T, specs string) []corev1.Taint {
	t.Helper()
	var parsed []corev1.Taint
	for spec := range strings.FieldsSeq(specs) {
		parsed = append(parsed, taint(t, spec))
	}
	return parsed
}

func TestParseReadsWhatKubectlReads(t *testing.T) {
	tests := []struct {
		name, spec string
		want       corev1.Taint
		formatted  string // When it is not the spec itself.
	}{
		{name: "effect NoSchedule", spec: "dedicated=db:NoSchedule", want: corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}},
		{name: "effect PreferNoSchedule", spec: "dedicated=db:PreferNoSchedule", want: corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectPreferNoSchedule}},
		{name: "effect NoExecute", spec: "dedicated=db:NoExecute", want: corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoExecute}},
		{name: "no value", spec: "dedicated:NoExecute", want: corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoExecute}},
		{name: "an equals sign before an empty value", spec: "dedicated=:NoExecute", want: corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoExecute}, formatted: "dedicated:NoExecute"},
		{name: "a key with a prefix", spec: "example.com/dedicated=db:NoSchedule", want: corev1.Taint{Key: "example.com/dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}},
		{name: "a key with dots, dashes and underscores", spec: "a.b-c_d:NoSchedule", want: corev1.Taint{Key: "a.b-c_d", Effect: corev1.TaintEffectNoSchedule}},
		{name: "a key of digits", spec: "1:NoSchedule", want: corev1.Taint{Key: "1", Effect: corev1.TaintEffectNoSchedule}},
		{name: "a key in capitals", spec: "GPU=A100:NoSchedule", want: corev1.Taint{Key: "GPU", Value: "A100", Effect: corev1.TaintEffectNoSchedule}},
		{name: "the longest key", spec: key63 + ":NoSchedule", want: corev1.Taint{Key: key63, Effect: corev1.TaintEffectNoSchedule}},
		{name: "the longest prefix", spec: prefix253 + "/" + key63 + ":NoSchedule", want: corev1.Taint{Key: prefix253 + "/" + key63, Effect: corev1.TaintEffectNoSchedule}},
		{name: "the longest value", spec: "a=" + key63 + ":NoSchedule", want: corev1.Taint{Key: "a", Value: key63, Effect: corev1.TaintEffectNoSchedule}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := taints.Parse(test.spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Parse(%q) (-want +got):\n%s", test.spec, diff)
			}
			want := test.formatted
			if want == "" {
				want = test.spec
			}
			if formatted := taints.Format(got); formatted != want {
				t.Errorf("Format gives %q, want %q", formatted, want)
			}
		})
	}
}

// malformed are specs that are wrong both as an addition and, followed by a "-", as a removal.
var malformed = []struct {
	name, spec string
	says       []string
}{
	{"nothing at all", "", []string{"no key"}},
	{"no key before the effect", ":NoSchedule", []string{"no key"}},
	{"no key before the value", "=db:NoSchedule", []string{"no key"}},
	{"only a colon", ":", []string{`nothing follows the ":"`, "NoSchedule, PreferNoSchedule or NoExecute"}},
	{"an empty effect", "dedicated=db:", []string{`nothing follows the ":"`, "NoSchedule, PreferNoSchedule or NoExecute"}},
	{"a value without an effect", "dedicated=db", []string{"value but no effect", "NoSchedule, PreferNoSchedule or NoExecute"}},
	{"an unknown effect", "dedicated=db:NoEvict", []string{`"NoEvict"`, "use NoSchedule, PreferNoSchedule or NoExecute"}},
	{"an effect in small letters", "dedicated=db:noschedule", []string{`"noschedule"`, "use NoSchedule"}},
	{"an effect with a blank after it", "dedicated=db:NoSchedule ", []string{`"NoSchedule "`}},
	{"an effect with a blank before it", "dedicated=db: NoSchedule", []string{`" NoSchedule"`}},
	{"two colons", "a:b:NoSchedule", []string{`more than one ":"`}},
	{"two colons in a row", "a::NoSchedule", []string{`more than one ":"`}},
	{"a colon after the effect", "a:NoSchedule:", []string{`more than one ":"`}},
	{"two equals signs", "a=b=c:NoSchedule", []string{`more than one "="`}},
	{"two equals signs in a row", "a==b:NoSchedule", []string{`more than one "="`}},
	{"an equals sign in the effect", "a:NoSchedule=b", []string{`"NoSchedule=b"`}},
	{"a key with a blank before it", " a:NoSchedule", []string{`key " a"`}},
	{"a key with a blank in it", "a b:NoSchedule", []string{`key "a b"`}},
	{"a key with a line break", "a\n:NoSchedule", []string{`key "a\n"`}},
	{"a key of one blank", " :NoSchedule", []string{`key " "`}},
	{"a key that begins with a dash", "-a:NoSchedule", []string{`key "-a"`}},
	{"a key that ends with a dash", "a-:NoSchedule", []string{`key "a-"`}},
	{"a key that ends with a dot", "a.:NoSchedule", []string{`key "a."`}},
	{"a key with a star", "a*:NoSchedule", []string{`key "a*"`}},
	{"a key with letters from beyond ASCII", "schlüssel:NoSchedule", []string{`key "schlüssel"`}},
	{"a key that is not UTF-8", "a\xff:NoSchedule", []string{`key "a\xff"`}},
	{"a key that is too long", key63 + "k:NoSchedule", []string{"63"}},
	{"a key of ten thousand characters", strings.Repeat("k", 10_000) + ":NoSchedule", []string{"63"}},
	{"a prefix that is too long", prefix253 + "p/a:NoSchedule", []string{"253"}},
	{"an empty prefix", "/a:NoSchedule", []string{`key "/a"`}},
	{"nothing after the prefix", "example.com/:NoSchedule", []string{`key "example.com/"`}},
	{"two prefixes", "example.com/b/c:NoSchedule", []string{`key "example.com/b/c"`}},
	{"a prefix in capitals", "Example.com/a:NoSchedule", []string{`key "Example.com/a"`}},
	{"a value with a blank", "a=b c:NoSchedule", []string{`value "b c"`}},
	{"a value of one blank", "a= :NoSchedule", []string{`value " "`}},
	{"a value with a slash", "a=b/c:NoSchedule", []string{`value "b/c"`}},
	{"a value that begins with a dash", "a=-1:NoSchedule", []string{`value "-1"`}},
	{"a value that ends with a dash", "a=b-:NoSchedule", []string{`value "b-"`}},
	{"a value with letters from beyond ASCII", "a=wért:NoSchedule", []string{`value "wért"`}},
	{"a value of one emoji", "a=🔥:NoSchedule", []string{`value "🔥"`}},
	{"a value that is too long", "a=" + key63 + "k:NoSchedule", []string{"63"}},
}

func TestParseNamesThePartThatIsWrong(t *testing.T) {
	for _, test := range malformed {
		t.Run(test.name, func(t *testing.T) {
			got, err := taints.Parse(test.spec)
			wantError(t, err, test.says...)
			if diff := cmp.Diff(corev1.Taint{}, got); diff != "" {
				t.Errorf("a taint comes with the error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRefusesWhatOnlyRemovalsMayBe(t *testing.T) {
	for name, spec := range map[string]string{
		"a key and an effect":          "a:NoSchedule-",
		"a key, a value and an effect": "a=b:NoSchedule-",
		"a key":                        "a-",
		"a dash":                       "-",
		"two dashes at the end":        "a:NoSchedule--",
		"a dash after an empty effect": "a:-",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := taints.Parse(spec)
			wantError(t, err, `ends with "-"`, "removal")
		})
	}
	t.Run("a key without an effect", func(t *testing.T) {
		_, err := taints.Parse("a")
		wantError(t, err, `"a"`, "no effect", "NoSchedule, PreferNoSchedule or NoExecute")
	})
}

func TestParseRemovalReadsWhatKubectlReads(t *testing.T) {
	tests := []struct {
		name, spec string
		want       taints.Removal
		printed    string // When it is not the spec itself.
	}{
		{name: "every effect of a key", spec: "a-", want: taints.Removal{Key: "a"}},
		{name: "effect NoSchedule", spec: "a:NoSchedule-", want: taints.Removal{Key: "a", Effect: corev1.TaintEffectNoSchedule}},
		{name: "effect PreferNoSchedule", spec: "a:PreferNoSchedule-", want: taints.Removal{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule}},
		{name: "effect NoExecute", spec: "a:NoExecute-", want: taints.Removal{Key: "a", Effect: corev1.TaintEffectNoExecute}},
		{name: "a value is ignored", spec: "a=b:NoExecute-", want: taints.Removal{Key: "a", Effect: corev1.TaintEffectNoExecute}, printed: "a:NoExecute-"},
		{name: "an empty value is ignored", spec: "a=:NoExecute-", want: taints.Removal{Key: "a", Effect: corev1.TaintEffectNoExecute}, printed: "a:NoExecute-"},
		{name: "a key with a prefix", spec: "example.com/a-", want: taints.Removal{Key: "example.com/a"}},
		{name: "a key with a dash in it", spec: "a-b-", want: taints.Removal{Key: "a-b"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := taints.ParseRemoval(test.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("ParseRemoval(%q) = %#v, want %#v", test.spec, got, test.want)
			}
			want := test.printed
			if want == "" {
				want = test.spec
			}
			if got.String() != want {
				t.Errorf("String gives %q, want %q", got, want)
			}
		})
	}
}

func TestParseRemovalNamesThePartThatIsWrong(t *testing.T) {
	for _, test := range malformed {
		t.Run(test.name, func(t *testing.T) {
			got, err := taints.ParseRemoval(test.spec + "-")
			wantError(t, err, test.says...)
			if got != (taints.Removal{}) {
				t.Errorf("a removal comes with the error: %#v", got)
			}
		})
	}
	t.Run("no dash at the end", func(t *testing.T) {
		_, err := taints.ParseRemoval("a:NoSchedule")
		wantError(t, err, `does not end with "-"`, "key:Effect-")
	})
	t.Run("two dashes after a key", func(t *testing.T) {
		_, err := taints.ParseRemoval("a--")
		wantError(t, err, `key "a-"`)
	})
	t.Run("two dashes after an effect", func(t *testing.T) {
		_, err := taints.ParseRemoval("a:NoSchedule--")
		wantError(t, err, `"NoSchedule-"`)
	})
}

func TestRemovalMatchesByKeyAndEffect(t *testing.T) {
	tests := []struct {
		name, removal, taint string
		want                 bool
	}{
		{"the same key and effect", "a:NoExecute-", "a:NoExecute", true},
		{"the value plays no part", "a=1:NoExecute-", "a=2:NoExecute", true},
		{"another effect", "a:NoExecute-", "a:NoSchedule", false},
		{"another key", "a:NoExecute-", "b:NoExecute", false},
		{"every effect", "a-", "a=1:PreferNoSchedule", true},
		{"every effect of another key", "a-", "b:NoSchedule", false},
		{"a key that only begins alike", "a-", "ab:NoSchedule", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			removal, err := taints.ParseRemoval(test.removal)
			if err != nil {
				t.Fatal(err)
			}
			if got := removal.Matches(taint(t, test.taint)); got != test.want {
				t.Errorf("%q matches %q: %t, want %t", test.removal, test.taint, got, test.want)
			}
		})
	}
}

func TestFormatPrintsWhatParseWouldNotAccept(t *testing.T) {
	added := metav1.NewTime(time.Unix(1_700_000_000, 0))
	tests := []struct {
		name  string
		taint corev1.Taint
		want  string
	}{
		{"nothing", corev1.Taint{}, ""},
		{"a key alone", corev1.Taint{Key: "a"}, "a"},
		{"a key and a value", corev1.Taint{Key: "a", Value: "b"}, "a=b:"},
		{"an effect of a later Kubernetes", corev1.Taint{Key: "a", Effect: "NoAdmit"}, "a:NoAdmit"},
		{"TimeAdded is left out", corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}, "a:NoExecute"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := taints.Format(test.taint); got != test.want {
				t.Errorf("Format gives %q, want %q", got, test.want)
			}
		})
	}
}

// wantError fails the test unless there is an error that contains every one of the texts.
func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}
