package runtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// smokeVariable makes this binary one of a package of which TestSmoke… are the default tests.
const smokeVariable = "LASH_TEST_SMOKE"

func TestMain(m *testing.M) {
	if os.Getenv(smokeVariable) != "" {
		runtest.SelectSmoke()
	}
	os.Exit(runtest.Select(m).Run())
}

func TestDefault(*testing.T)   {}
func TestLongKind(*testing.T)  {}
func TestChildKind(*testing.T) {}
func TestSmokeKind(*testing.T) {}

func TestChildChromium(t *testing.T) { runtest.Chromium(t) }
func TestChildNPM(t *testing.T)      { runtest.NPM(t) }
func TestChildTools(t *testing.T) {
	runtest.Tools(t, map[string]string{"certutil": "libnss3-tools"}, "certutil")
}

// TestNeeds runs a test for each thing that is not there: it is skipped, or fails, and says what to install.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for test, want := range map[string][]string{
		"TestChildChromium": {"--- SKIP", "apt-get install chromium"}, "TestChildNPM": {"--- SKIP", "LASH_NODE_MODULES"}, "TestChildTools": {"--- FAIL", "apt-get install libnss3-tools"},
	} {
		cmd := runtest.Child(t.Context(), test, "PATH=/nowhere", "LASH_NODE_MODULES=")
		cmd.Args = append(cmd.Args, "-test.v")
		output, _ := cmd.CombinedOutput() // it says what the exit code says
		for _, text := range want {
			if !strings.Contains(string(output), text) {
				t.Errorf("%s: got %s, want %q", test, output, text)
			}
		}
	}
}

// TestSelected runs this binary's tests as a user would, and finds which of them ran.
func TestSelected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  string
		args []string
		want []string
	}{
		"default":    {"", nil, []string{"TestDefault"}},
		"smoke":      {smokeVariable + "=1", nil, []string{"TestSmokeKind"}},
		"smoke_long": {smokeVariable + "=1 LASH_LONG=1", []string{"-test.skip=^Test(Selected|Needs|Assertions)$"}, []string{"TestDefault", "TestLongKind", "TestSmokeKind"}},
		"smoke_by":   {smokeVariable + "=1", []string{"-test.run=^TestDefault$"}, []string{"TestDefault"}},
		"long":       {"LASH_LONG=1", nil, []string{"TestDefault", "TestLongKind"}},
		"child":      {"LASH_TEST_CHILD=1", nil, []string{"TestDefault", "TestChildKind"}},
		"skip":       {"", []string{"-test.skip=^TestDefault$"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := runtest.Child(t.Context(), "")
			log := filepath.Join(t.TempDir(), "log") // as go test asks for one, to know whose result it caches
			cmd.Args = append([]string{os.Args[0], "-test.v", "-test.testlogfile=" + log}, c.args...)
			if !strings.HasPrefix(name, "smoke") {
				cmd.Args = append(cmd.Args, "-test.run=^Test(Default|LongKind|ChildKind)$")
			}
			cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LASH_") }), strings.Fields(c.env)...)
			output, err := cmd.CombinedOutput()
			var got []string
			for _, ran := range regexp.MustCompile(`--- PASS: (\w+)`).FindAllSubmatch(output, -1) {
				got = append(got, string(ran[1]))
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v, want %v: %s", got, err, c.want, output)
			}
			if read, err := os.ReadFile(log); err != nil || !strings.Contains("\n"+string(read), "\ngetenv LASH_LONG\n") {
				t.Errorf("got the log %s, %v, want it to name the variable", read, err)
			}
		})
	}
}
