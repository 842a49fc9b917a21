package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// observed names, for each key, the test that sees its effect in something that
// runs: it fails if what is configured is ignored from the file to the socket.
var observed = map[string]string{
	"[process].drain_timeout":   "cmd/sluice.TestStopCutsAtDrainTimeout",
	"[process].pre_drain_delay": "cmd/sluice.TestStopPreDrainDelay",
	"[process].watch":           "cmd/sluice.TestWatchIsSwitched",
	"[process].state_file":      "cmd/sluice.TestStateFileNone",
	"[process].engine":          "cmd/sluice.TestReloadUnderLoad",
	"[process].loops":           "cmd/sluice/internal/balancer.TestLoopsKey",
	"[process].max_sessions":    "cmd/sluice.TestSessionLimitKeysAreLive",
	"[process].zone":            "cmd/sluice.TestZoneKeysAreLive",
	"[process].resolver":        "cmd/sluice.TestResolverKeyIsLive",

	"[log].level":     "cmd/sluice.TestReloadChangesLog",
	"[log].format":    "cmd/sluice.TestReloadChangesLog",
	"[log].access":    "cmd/sluice.TestAccessSettings",
	"[log].log_empty": "cmd/sluice.TestAccessSettings",

	"[admin].listen":       "cmd/sluice.TestAdminOnUnixSocket",
	"[admin].mode":         "cmd/sluice.TestAdminOnUnixSocket",
	"[admin].token_file":   "cmd/sluice.TestWatchTokenFile",
	"[admin].probe_listen": "cmd/sluice.TestReloadListenersOfTheAdminSide",
	"[admin].hosts":        "cmd/sluice.TestReloadHostsAndTrustedProxies",

	"[admin.proxy].enabled":          "cmd/sluice.TestProxyKeysAreLive",
	"[admin.proxy].pool":             "cmd/sluice.TestProxyKeysAreLive",
	"[admin.proxy].listen":           "cmd/sluice.TestReloadListenersOfTheAdminSide",
	"[admin.proxy].trusted_from":     "cmd/sluice.TestReloadHostsAndTrustedProxies",
	"[admin.proxy].response_timeout": "cmd/sluice.TestProxyKeysAreLive",

	"[[frontend]].name":                    "cmd/sluice.TestReloadRenamesFrontend",
	"[[frontend]].listen":                  "cmd/sluice.TestReloadMovesFrontend",
	"[[frontend]].pool":                    "cmd/sluice.TestChoiceKeysAreLive",
	"[[frontend]].attempts":                "cmd/sluice.TestDialKeysAreLive",
	"[[frontend]].connect_timeout":         "cmd/sluice.TestDialKeysAreLive",
	"[[frontend]].dial_budget":             "cmd/sluice.TestDialKeysAreLive",
	"[[frontend]].idle_timeout":            "cmd/sluice.TestSilenceKeysAreLive",
	"[[frontend]].half_close_timeout":      "cmd/sluice.TestSilenceKeysAreLive",
	"[[frontend]].user_timeout":            "cmd/sluice/internal/balancer.TestSocketKeysAreLive",
	"[[frontend]].max_session_age":         "cmd/sluice.TestSessionAgeKeysAreLive",
	"[[frontend]].max_session_age_jitter":  "cmd/sluice.TestSessionAgeKeysAreLive",
	"[[frontend]].max_sessions":            "cmd/sluice.TestSessionLimitKeysAreLive",
	"[[frontend]].max_sessions_per_client": "cmd/sluice.TestClientLimitKeysAreLive",
	"[[frontend]].max_rate_per_client":     "cmd/sluice.TestClientLimitKeysAreLive",
	"[[frontend]].allow":                   "cmd/sluice.TestAdmissionKeysAreLive",
	"[[frontend]].deny":                    "cmd/sluice.TestAdmissionKeysAreLive",
	"[[frontend]].proxy_protocol":          "cmd/sluice.TestAdmissionKeysAreLive",
	"[[frontend]].proxy_protocol_from":     "cmd/sluice.TestAdmissionKeysAreLive",
	"[[frontend]].proxy_header_timeout":    "cmd/sluice.TestAdmissionKeysAreLive",
	"[[frontend]].mode":                    "cmd/sluice.TestReloadUnixSocket",

	"keepalive = { ... }.idle":     "cmd/sluice/internal/balancer.TestSocketKeysAreLive",
	"keepalive = { ... }.interval": "cmd/sluice/internal/balancer.TestSocketKeysAreLive",
	"keepalive = { ... }.count":    "cmd/sluice/internal/balancer.TestSocketKeysAreLive",

	"[[pool]].name":                "cmd/sluice.TestChoiceKeysAreLive",
	"[[pool]].strategy":            "cmd/sluice.TestChoiceKeysAreLive",
	"[[pool]].ties":                "cmd/sluice.TestChoiceKeysAreLive",
	"[[pool]].max_failures":        "cmd/sluice.TestDialFailureKeysAreLive",
	"[[pool]].retry_after":         "cmd/sluice.TestDialFailureKeysAreLive",
	"[[pool]].slow_start":          "cmd/sluice.TestNewBackendIsProbedAtOnce",
	"[[pool]].all_down":            "cmd/sluice.TestProbesTimeOut",
	"[[pool]].on_down":             "cmd/sluice.TestBackendEventsAndTheirSessions",
	"[[pool]].on_remove":           "cmd/sluice.TestBackendEventsAndTheirSessions",
	"[[pool]].drain_timeout":       "cmd/sluice.TestBackendEventsAndTheirSessions",
	"[[pool]].send_proxy":          "cmd/sluice.TestProbesBeginWithAHeader",
	"[[pool]].queue_max":           "cmd/sluice.TestQueueKeysAreLive",
	"[[pool]].queue_timeout":       "cmd/sluice.TestQueueKeysAreLive",
	"[[pool]].hold_timeout":        "cmd/sluice.TestHoldKeysAreLive",
	"[[pool]].release_rate":        "cmd/sluice.TestHoldKeysAreLive",
	"[[pool]].single":              "cmd/sluice.TestSingleKeyIsLive",
	"[[pool]].panic_threshold":     "cmd/sluice.TestPanicThresholdIsLive",
	"[[pool]].backup_minimum":      "cmd/sluice.TestBackupKeysAreLive",
	"[[pool]].zone_minimum":        "cmd/sluice.TestZoneKeysAreLive",
	"[[pool]].hash_balance_factor": "cmd/sluice.TestHashBalanceFactorIsLive",
	"[[pool]].resolve_interval":    "cmd/sluice.TestResolveIntervalIsLive",

	"[pool.health].probe":           "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].init":            "cmd/sluice/internal/balancer.TestProbeInitOfNewBackends",
	"[pool.health].interval":        "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].down_interval":   "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].timeout":         "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].rise":            "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].fall":            "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].send":            "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].expect":          "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].path":            "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].host":            "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].status":          "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].port":            "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].address":         "cmd/sluice/internal/balancer.TestProbeKeysAreLive",
	"[pool.health].role":            "cmd/sluice.TestPostgresRoles",
	"[pool.health].user":            "cmd/sluice.TestPostgresDatabase",
	"[pool.health].password_file":   "cmd/sluice.TestRedisPasswordIsChanged",
	"[pool.health].password_env":    "cmd/sluice.TestPostgresTLS",
	"[pool.health].database":        "cmd/sluice.TestPostgresDatabase",
	"[pool.health].max_lag":         "cmd/sluice.TestPostgresLag",
	"[pool.health].min_replicas":    "cmd/sluice.TestRedisLag",
	"[pool.health].wsrep_ready":     "cmd/sluice.TestMySQLWsrepReady",
	"[pool.health].tls":             "cmd/sluice.TestPostgresTLS",
	"[pool.health].tls_ca_file":     "cmd/sluice.TestPostgresTLS",
	"[pool.health].tls_cert_file":   "cmd/sluice.TestPostgresTLS",
	"[pool.health].tls_key_file":    "cmd/sluice.TestPostgresTLS",
	"[pool.health].tls_server_name": "cmd/sluice.TestPostgresTLS",

	"[pool.outliers].detect":        "cmd/sluice.TestOutlierKeysAreLive",
	"[pool.outliers].interval":      "cmd/sluice.TestOutlierKeysAreLive",
	"[pool.outliers].min_sessions":  "cmd/sluice.TestOutlierKeysAreLive",
	"[pool.outliers].failure_share": "cmd/sluice.TestOutlierKeysAreLive",
	"[pool.outliers].early":         "cmd/sluice.TestOutlierKeysAreLive",
	"[pool.outliers].dial_factor":   "cmd/sluice.TestOutlierKeysAreLive",
	"[pool.outliers].max_ejected":   "cmd/sluice.TestOutlierKeysAreLive",
	"[pool.outliers].eject_for":     "cmd/sluice.TestEjectionKeysAreLive",
	"[pool.outliers].eject_max":     "cmd/sluice.TestEjectionKeysAreLive",

	"[[pool.backend]].id":           "cmd/sluice.TestBackendEventsAndTheirSessions",
	"[[pool.backend]].address":      "cmd/sluice.TestChoiceKeysAreLive",
	"[[pool.backend]].weight":       "cmd/sluice.TestChoiceKeysAreLive",
	"[[pool.backend]].max_sessions": "cmd/sluice.TestQueueKeysAreLive",
	"[[pool.backend]].send_proxy":   "cmd/sluice.TestSendProxyOfOneBackend",
	"[[pool.backend]].backup":       "cmd/sluice.TestBackupKeysAreLive",
	"[[pool.backend]].zone":         "cmd/sluice.TestZoneKeysAreLive",
	"[[pool.backend]].resolve":      "cmd/sluice.TestDiscoverUnderLoad",
}

// Every key, and no other, has a test of its effect, and that test exists.
func TestEachKeyIsObserved(t *testing.T) {
	t.Parallel()
	left := make(map[string]bool)
	for key := range observed {
		left[key] = true
	}
	tests := make(map[string]map[string]bool) // by package
	for _, k := range everyKeys {
		for _, name := range k.known {
			if k.table(name) != nil {
				continue
			}
			key := k.header + "." + name
			at, test, _ := strings.Cut(observed[key], ".")
			if tests[at] == nil {
				tests[at] = testsOf(t, filepath.Join("../../..", at))
			}
			if !tests[at][test] {
				t.Errorf("%s: no test %q in %q", key, test, at)
			}
			delete(left, key)
		}
	}
	for key := range left {
		t.Errorf("%s is no key", key)
	}
}

// testsOf returns the test functions of the package in dir, on whatever system
// they run.
func testsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
