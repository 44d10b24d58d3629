# What one does with this tree, each by one word. `make help` lists them.
# Rust comes by rustup; rust-toolchain.toml names the version. scripts/need brings the rest.

export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/sbin:/usr/sbin:/sbin
# Strict with the lock file where nobody looks on; forgiving while someone edits Cargo.toml.
LOCKED := $(if $(CI),--locked)
TARGET := $(or $(CARGO_TARGET_DIR),target)
PREFIX ?= /usr/local
# weir is built, tested and measured as it comes, whatever the configuration file of whoever does it says.
export WEIR_CONFIG :=
# A snapshot that is missing or has other words fails and is not written; CONTRIBUTING.md says how to accept
# one.
export INSTA_UPDATE ?= no
# What is built once needs no notes for the next build: they take time and 7 GB of disk.
ifdef CI
export CARGO_INCREMENTAL := 0
endif
FUZZ_SECONDS ?= 600

.PHONY: build help demo test arm-check truth truth-field truth-http plan-check soak soak-cp soak-fleet soak-hosts soak-net soak-serve stores-check h2spec bench bench-cp bench-store bench-fleet bench-hosts bench-net bench-http fuzz deny gallery install package package-check reproduce wheel wheel-check clean

build: ## compile the release binary (the default): target/release/weir
	@scripts/need build
	cargo build --release $(LOCKED) -p weir

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 12

demo: build ## the main job on this machine alone, with live figures
	$(TARGET)/release/weir demo

test: ## format, lints, all tests; licences and sources of all dependencies, and their advisories where the network has them
	@scripts/need test
	cargo fmt --all --check
	@# Where everything is compiled anew the same pass lints: another would take five minutes.
	$(if $(CI),,cargo clippy --workspace --all-targets $(LOCKED) -- -D warnings)
	@# The fuzz targets are a workspace of their own. What they call is compiled and tested as crates/weir-checks, and a test
	@# there holds each target to the same few lines.
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	@cargo metadata --manifest-path fuzz/Cargo.toml --format-version 1 $(LOCKED) >/dev/null
	@# The Python module as well; make wheel-check compiles and tests it.
	cargo fmt --manifest-path python/Cargo.toml --check
	scripts/test-programs $(if $(CI),--lint) $(LOCKED)
	@cat $(TARGET)/truth/sample/matrix.md 2>/dev/null || true
	@scripts/deny

truth: ## every cause x path x congestion control, judged from each side (half an hour); WEIR_TRUTH='cause=policer,cc=bbr' for a part
	@scripts/need test
	WEIR_TRUTH="$(or $(WEIR_TRUTH),all)" cargo test $(LOCKED) -p weir --test truth -- --nocapture verdicts

truth-field: ## slow transfers of real programs, judged by weir why (six minutes, root); WEIR_FIELD='kind=nagle,side=sender' for a part
	@scripts/need truth-field
	WEIR_FIELD="$(or $(WEIR_FIELD),all)" cargo test $(LOCKED) -p weir --test truth_field -- --nocapture real_programs

truth-http: ## who held weir bench http's figure, told beside two busy loops: every cause and its likes five times (seven minutes, root); WEIR_HELD=1 once
	@scripts/need test
	WEIR_HELD="$(or $(WEIR_HELD),all)" cargo test $(LOCKED) -p weir --test bench_http_clock -- --nocapture busy_machine

plan-check: ## ten copies over shaped links, each planned first: within 15 % in nine (minutes, root; WEIR_PLAN_CASES=N for one)
	@scripts/need build
	WEIR_PLAN_CASES="$(or $(WEIR_PLAN_CASES),all)" cargo test --release $(LOCKED) -p weir --test plan_cases --test cp_verdict -- --nocapture --test-threads 1

soak: ## 1000 downloads killed at random points and resumed, 1000 random histories of an object (test runs 20 of each)
	@scripts/need build
	WEIR_SOAK=1000 cargo test --release $(LOCKED) -p weir --test safety -- --nocapture kill:: histories::

soak-cp: ## cp: 10,000 bits flipped, 200 kills, ends that fall silent, 20 GB and 200,000 files in bounded memory (20 minutes)
	@scripts/need test
	WEIR_SOAK=10000 cargo test --release $(LOCKED) -p weir-cp --test pair -- --nocapture flipped
	WEIR_SOAK=200 cargo test --release $(LOCKED) -p weir --test cp -- --nocapture kill::
	WEIR_SOAK=1 cargo test --release $(LOCKED) -p weir --test cp -- --nocapture silence
	WEIR_SOAK=1 cargo test --release $(LOCKED) -p weir --test cp -- --nocapture --test-threads 1 memory::

soak-fleet: ## fleet: 100 kills of workers on SQLite, on PostgreSQL with 20 stops of it, and of runs; ten million objects by 8 workers
	@scripts/need test
	WEIR_SOAK=100 cargo test --release $(LOCKED) -p weir --test safety -- --nocapture --test-threads 1 killed_workers runs_and_workers eight_workers_of_any

soak-hosts: ## cp --to-hosts: eight hosts on wires of 100 Mbit/s, six at two sites, in the time of one; mishaps, 200 kills (20 minutes, root)
	@scripts/need test
	WEIR_SOAK=1 cargo test --release $(LOCKED) -p weir --test cp -- --nocapture --test-threads 1 to_hosts_yard:: to_hosts_apart::
	WEIR_SOAK=400 cargo test --release $(LOCKED) -p weir --test cp -- --nocapture to_hosts::killed to_hosts_far::killed

soak-net: ## bench net: the whole list with iperf3 100 times over, 2000 mutated dialogues (an hour)
	@scripts/need test
	WEIR_SOAK=100 cargo test --release $(LOCKED) -p weir --test bench -- --nocapture net::a_client_of
	WEIR_SOAK=2000 cargo test --release $(LOCKED) -p weir-bench-net --test strangers -- --nocapture mutated

soak-serve: ## serve: 10,000 idle connections of each kind beside one honest client, deadlines of a minute, h2spec (2 minutes)
	@scripts/need h2spec
	WEIR_SOAK=1 cargo test --release $(LOCKED) -p weir --test serve_strangers -- --nocapture --test-threads 1

stores-check: ## every store that can be played here: moto, s3s-fs, gofakes3, Azurite, Google's emulator; s5cmd and rclone beside (12 GB of disk; WEIR_SOAK=40 kills each)
	@scripts/need stores
	WEIR_STORES=all WEIR_SOAK="$(or $(WEIR_SOAK),40)" cargo test $(LOCKED) -p weir --test get -- --nocapture --test-threads 1 store_rounds::

h2spec: ## all of h2spec's 145 cases against weir serve over TLS; installs it with Go where it is missing
	@scripts/need h2spec
	cargo test $(LOCKED) -p weir --test serve_strangers -- --nocapture h2spec

bench: ## weir and its peers against nginx; RUNS=5, results under bench/results/
	@scripts/need bench
	@$(MAKE) --no-print-directory build
	bench/run $(SCENARIOS)

bench-cp: ## weir cp, its peers and pipes built by hand, against a real sshd (root); RUNS=5, SCENARIOS='loopback-text far' for a part
	@scripts/need bench-cp
	@$(MAKE) --no-print-directory build
	bench/cp $(SCENARIOS)

bench-store: ## weir get, put and the movers of object stores against nginx and s3s-fs; RUNS=5, SCENARIOS='get many'
	@scripts/need bench-store
	@$(MAKE) --no-print-directory build
	PATH="$(HOME)/.cache/weir-bench/movers/bin:$$PATH" bench/store $(SCENARIOS)

bench-fleet: ## eight workers of weir fleet against other movers on split lists, and ten million objects in both ledgers; RUNS=3, SCENARIOS='movers'
	@scripts/need bench-fleet
	@$(MAKE) --no-print-directory build
	PATH="$(HOME)/.cache/weir-bench/movers/bin:$$PATH" bench/fleet $(SCENARIOS)

bench-hosts: ## weir cp --to-hosts to eight hosts on wires of 100 Mbit/s, rsync to each, a chain of nc and tee, uftp (root); RUNS=3
	@scripts/need bench-hosts
	@$(MAKE) --no-print-directory build
	bench/hosts

bench-net: ## weir bench net and iperf3 over loopback, interleaved; RUNS=5, SECONDS_EACH=3
	@scripts/need test
	@$(MAKE) --no-print-directory build
	bench/net

bench-http: ## weir bench http, wrk and ab against nginx, server and load on a processor each; RUNS=5, SCENARIOS='plain script'
	@scripts/need bench
	@$(MAKE) --no-print-directory build
	bench/http $(SCENARIOS)

fuzz: ## every fuzz target for FUZZ_SECONDS (600) each
	@scripts/need fuzz
	cargo run $(LOCKED) -q -p weir-checks --example fuzz_seeds fuzz/seeds
	@set -e; for target in $$(cargo +nightly fuzz list); do \
	  echo "fuzz $$target, $(FUZZ_SECONDS) s"; mkdir -p fuzz/corpus/$$target fuzz/seeds/$$target; \
	  cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(FUZZ_SECONDS); \
	done

gallery: ## docs/gallery: a page for each kind of record, from the records kept there
	@scripts/need build
	cargo build $(LOCKED) -p weir
	@set -e; cd docs/gallery; weir=$(abspath $(TARGET))/debug/weir; \
	for record in records/*.json; do $$weir report -q $$record -o .; done; \
	$$weir report -q records/get-window.json records/get-window-mended.json -o .; \
	ls -s *.html

deny: ## licences, sources and advisories of every dependency, with what deny.toml only warns of
	@scripts/need deny
	scripts/deny --verbose

# Separate from `build`, so that `sudo make install` needs no compiler for root.
install: ## binary, man pages and completions below PREFIX=/usr/local (DESTDIR is honoured)
	@test -x $(TARGET)/release/weir || $(MAKE) --no-print-directory build
	install -Dm755 $(TARGET)/release/weir $(DESTDIR)$(PREFIX)/bin/weir
	@set -e; pages=$$(mktemp -d); trap 'rm -rf "$$pages"' EXIT; mkdir "$$pages/man"; \
	weir=$(TARGET)/release/weir; \
	$$weir man "$$pages/man"; \
	$$weir completions bash >"$$pages/weir.bash"; \
	$$weir completions zsh >"$$pages/_weir"; \
	$$weir completions fish >"$$pages/weir.fish"; \
	share=$(DESTDIR)$(PREFIX)/share; \
	install -Dm644 -t "$$share/man/man1" "$$pages"/man/*; \
	install -Dm644 "$$pages/weir.bash" "$$share/bash-completion/completions/weir"; \
	install -Dm644 "$$pages/_weir" "$$share/zsh/site-functions/_weir"; \
	install -Dm644 "$$pages/weir.fish" "$$share/fish/vendor_completions.d/weir.fish"; \
	echo "man pages and completions: $$share"

arm-check: ## weir for aarch64 by QEMU: its tests, get, cp between machines of both kinds (half an hour)
	@scripts/need arm-check
	scripts/arm-check

package: ## static binaries, .deb and .rpm for x86-64 and aarch64, SBOM, SHA256SUMS, the makings of an image: target/package/
	@scripts/need package
	scripts/package

package-check: ## do the packages of `make package` work in fresh roots, and leave nothing when they go? (root)
	@scripts/need package-check
	scripts/package-check

reproduce: ## do two builds of the last commit's packages, in folders of other names, give the same bytes? (an hour)
	@scripts/need package
	scripts/reproduce

wheel: ## the Python module and the program as a wheel, into target/wheel/; WHEELS='aarch64-unknown-linux-musl ...' for other targets
	@scripts/need wheel
	scripts/wheel $(WHEELS)

wheel-check: ## the wheel of make wheel in a fresh environment: its tests, mypy --strict, the documents' examples; WEIR_BENCH=1 also measures
	@scripts/need wheel-check
	cargo clippy --manifest-path python/Cargo.toml --target-dir $(TARGET) $(LOCKED) -- -D warnings
	scripts/wheel-check $(WHEEL)

clean: ## what was compiled, and the benchmark's files (its results stay)
	cargo clean
	rm -rf bench/work fuzz/target fuzz/seeds
