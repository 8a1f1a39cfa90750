package runtest_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

func TestMain(m *testing.M) {
	runtest.Select()
	os.Exit(m.Run())
}

func TestDefault(*testing.T)   {}
func TestLongKind(*testing.T)  {}
func TestChildKind(*testing.T) {}

// TestSelected runs this binary's tests as a user would, and finds which of them ran.
func TestSelected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  string
		args []string
		want []string
	}{
		"default": {"", nil, []string{"TestDefault"}},
		"long":    {"LASH_LONG=1", nil, []string{"TestDefault", "TestLongKind"}},
		"child":   {"LASH_TEST_CHILD=1", nil, []string{"TestDefault", "TestChildKind"}},
		"skip":    {"", []string{"-test.skip=^TestDefault$"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := runtest.Child(t.Context(), "")
			cmd.Args = append([]string{os.Args[0], "-test.v", "-test.run=^Test(Default|LongKind|ChildKind)$"}, c.args...)
			cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LASH_") }), c.env)
			output, err := cmd.CombinedOutput()
			var got []string
			for _, ran := range regexp.MustCompile(`--- PASS: (\w+)`).FindAllSubmatch(output, -1) {
				got = append(got, string(ran[1]))
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v: %s", got, err, c.want, output)
			}
		})
	}
}
