{{- /*
The parts of a pod with the sidecar, for this chart's demo and for charts of yours that have this
one as a dependency: {{ include "recourse.initContainers" .Subcharts.recourse | nindent 8 }}
*/}}

{{- /* Labels of the pod: by them PodMonitor and NetworkPolicy find it. */}}
{{- define "recourse.podLabels" -}}
recourse.dev/sidecar: {{ include "recourse.fullname" . }}
{{- end }}

{{- /* Lists by commas among the pod's annotations: a mesh leaves the probes alone, and a node may be emptied of what is made anew. */}}
{{- define "recourse.annotationLists" -}}
traffic.sidecar.istio.io/excludeInboundPorts: {{ .Values.ports.probes | quote }}
config.linkerd.io/skip-inbound-ports: {{ .Values.ports.probes | quote }}
{{- $local := list }}
{{- if .Values.interception.enabled }}{{ $local = append $local "recourse-trust" }}{{ end }}
{{- if .Values.ledger.url }}{{ $local = append $local "recourse-ledger" }}{{ end }}
{{- with $local }}
cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: {{ join "," . }}
{{- end }}
{{- end }}

{{- /* Annotations of the pod. One whose ledger goes with it is not evicted to save a node. */}}
{{- define "recourse.podAnnotations" -}}
{{ include "recourse.annotationLists" . }}
{{- if and (not .Values.ledger.url) (has .Values.store.type (list "emptyDir" "ephemeral")) }}
cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
{{- end }}
{{- end }}

{{- /* securityContext of the pod. A volume's root belongs to the group; what Recourse made below it stays private. */}}
{{- define "recourse.podSecurityContext" -}}
fsGroup: {{ .Values.runAs.group }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "recourse.terminationGracePeriodSeconds" -}}
{{- .Values.terminationGracePeriodSeconds }}
{{- end }}

{{- /* securityContext of a container in the image of Recourse. */}}
{{- define "recourse.containerSecurityContext" -}}
runAsNonRoot: true
runAsUser: {{ .Values.runAs.user }}
runAsGroup: {{ .Values.runAs.group }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ ALL ] }
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- /* First of the pod's initContainers: those after them, and the agent, are served by Recourse. */}}
{{- define "recourse.initContainers" -}}
{{- include "recourse.check" . }}
{{- if .Values.redirect.enabled }}
{{- include "recourse.redirect" . }}
{{ end }}
{{- include "recourse.sidecar" . }}
{{- end }}

{{- define "recourse.redirect" -}}
- name: recourse-redirect
  image: {{ include "recourse.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - redirect
    - {{ .Values.redirect.byNode | ternary "await" "install" }}
    - --uid={{ .Values.runAs.user }}
    - --port={{ .Values.ports.redirect }}
    - --ports={{ .Values.redirect.ports }}
    {{- with .Values.redirect.excludePorts }}
    - --exclude-ports={{ . }}
    {{- end }}
    {{- with .Values.redirect.excludeCidrs }}
    - --exclude-cidrs={{ . }}
    {{- end }}
  {{- if .Values.redirect.byNode }}
  {{- /* Of another user than the sidecar: what that connects to is left alone. */}}
  {{- $user := add .Values.runAs.user 1 }}
  {{- $rights := fromYaml (include "recourse.containerSecurityContext" .) }}
  securityContext:
    {{- set (set $rights "runAsUser" $user) "runAsGroup" $user | toYaml | nindent 4 }}
  {{- else }}
  securityContext:
    runAsNonRoot: false
    runAsUser: 0
    runAsGroup: 0
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: { drop: [ ALL ], add: [ NET_ADMIN ] }
    seccompProfile: { type: RuntimeDefault }
  {{- end }}
  resources:
    requests: { cpu: 10m, memory: 16Mi }
    limits: { memory: 64Mi }
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
    - {{ include "recourse.noToken" . }}
{{- end }}

{{- /* An empty mount where Kubernetes would mount the token of the agents' ServiceAccount. */}}
{{- define "recourse.noToken" -}}
{ name: recourse-no-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true }
{{- end }}

{{- define "recourse.sidecar" -}}
- name: recourse
  image: {{ include "recourse.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  restartPolicy: Always
  args:
    - run
    - --listen=127.0.0.1:{{ .Values.ports.proxy }}
    {{- include "recourse.processArgs" . | nindent 4 }}
    {{- if .Values.redirect.enabled }}
    - --redirect={{ .Values.ports.redirect }}
    {{- end }}
    {{- if .Values.agent.watch }}
    - --watch-unguarded
    {{- end }}
    {{- if .Values.interception.enabled }}
    - --ca=/run/recourse/ca
    - --ca-life={{ .Values.interception.life }}
    - --ca-bundle=/run/recourse/trust/ca.pem
    {{- if .Values.interception.java }}
    - --ca-bundle=/run/recourse/trust/ca.jks
    {{- end }}
    {{- end }}
    {{- range .Values.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  {{- include "recourse.processEnvironment" . | nindent 2 }}
  {{- with .Values.resources }}
  resources:
    {{- $room := dict }}
    {{- if and (eq $.Values.store.type "emptyDir") (not $.Values.ledger.url) }}
    {{- /* The node has it for the ledger. */}}
    {{- $room = dict "requests" (dict "ephemeral-storage" $.Values.store.size) }}
    {{- end }}
    {{- merge (deepCopy .) $room | toYaml | nindent 4 }}
  {{- end }}
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
    {{- include "recourse.processMounts" . | nindent 4 }}
    {{- if .Values.interception.enabled }}
    - { name: recourse-ca, mountPath: /run/recourse/ca{{ if .Values.interception.caSecret }}, readOnly: true{{ end }} }
    - { name: recourse-trust, mountPath: /run/recourse/trust }
    {{- end }}
{{- end }}

{{- /* Where operators reach a process: within the pod, or over TLS where `adminAt` has a name. */}}
{{- define "recourse.adminArgs" -}}
{{- if .adminAt -}}
- --admin={{ .Values.probesAddress }}:{{ .Values.ports.admin }}
- --admin-tls-cert=/run/secrets/recourse-tls/tls.crt
- --admin-tls-key=/run/secrets/recourse-tls/tls.key
{{- range concat (list .adminAt.name) .adminAt.hosts }}
- --admin-host={{ . }}
{{- end }}
{{- else -}}
- --admin=127.0.0.1:{{ .Values.ports.admin }}
{{- end }}
{{- end }}

{{- /* What sidecars and the steward have in common: args, */}}
{{- define "recourse.processArgs" -}}
- --policy={{ include "recourse.policyFile" . }}
- --data=/var/lib/recourse/ledger
{{ include "recourse.adminArgs" . }}
- --probes={{ .Values.probesAddress }}:{{ .Values.ports.probes }}
- --drain-timeout={{ .Values.drainSeconds }}s
- --log-level={{ .Values.logLevel }}
{{- if .Values.ledger.url }}
- {{ printf "--ledger=%s" .Values.ledger.url | quote }}
- --ledger-group={{ .Values.ledger.group | default (printf "%s/%s" .Release.Namespace (include "recourse.fullname" .)) }}
{{- if .Values.ledger.passwordSecret }}
- --ledger-password-file=/run/secrets/recourse-database/password
{{- end }}
{{- else }}
- --ledger-max={{ include "recourse.ledgerMax" . }}
{{- with .Values.store.expectLedger }}
- --expect-ledger={{ . }}
{{- end }}
{{- end }}
{{- if .Values.ledgerKeySecret }}
- --ledger-key-file=/run/secrets/recourse-ledger-key/keys
{{- end }}
{{- if .Values.installSecret }}
- --install-secret-file=/run/secrets/recourse-install/secret
{{- end }}
{{- if .Values.admin.operatorsSecret }}
- --operators=/run/secrets/recourse-operators/operators.yaml
{{- end }}
{{- end }}

{{- /* environment, ports, probes and rights, */}}
{{- define "recourse.processEnvironment" -}}
env:
  # Also for `kubectl exec POD -c recourse -- recourse events list`.
{{- with .adminAt }}
  - { name: RECOURSE_ADMIN, value: "https://{{ .name }}:{{ .port }}" }
  - { name: RECOURSE_ADMIN_CA, value: /run/secrets/recourse-tls/ca.crt }
{{- else }}
  - { name: RECOURSE_ADMIN, value: "127.0.0.1:{{ .Values.ports.admin }}" }
{{- end }}
  - { name: RECOURSE_POD_UID, valueFrom: { fieldRef: { fieldPath: metadata.uid } } }
  {{- if .Values.admin.tokenSecret }}
  - { name: RECOURSE_ADMIN_TOKEN_FILE, value: /run/secrets/recourse-admin/token }
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - { name: recourse-probes, containerPort: {{ .Values.ports.probes }}, protocol: TCP }
startupProbe:
  httpGet: { path: /ready, port: recourse-probes }
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: {{ .Values.startup.seconds }}
livenessProbe:
  httpGet: { path: /live, port: recourse-probes }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /ready, port: recourse-probes }
  periodSeconds: 5
  timeoutSeconds: 5
securityContext:
  {{- include "recourse.containerSecurityContext" . | nindent 2 }}
{{- end }}

{{- /* and volumeMounts. */}}
{{- define "recourse.processMounts" -}}
- { name: recourse-ledger, mountPath: /var/lib/recourse }
- {{ include "recourse.noToken" . }}
# The directory: a file that is mounted with subPath never changes.
- { name: recourse-policy, mountPath: /etc/recourse/policy, readOnly: true }
{{- if .Values.admin.tokenSecret }}
- { name: recourse-admin, mountPath: /run/secrets/recourse-admin, readOnly: true }
{{- end }}
{{- if .Values.admin.operatorsSecret }}
- { name: recourse-operators, mountPath: /run/secrets/recourse-operators, readOnly: true }
{{- end }}
{{- if .Values.ledgerKeySecret }}
- { name: recourse-ledger-key, mountPath: /run/secrets/recourse-ledger-key, readOnly: true }
{{- end }}
{{- if .Values.installSecret }}
- { name: recourse-install, mountPath: /run/secrets/recourse-install, readOnly: true }
{{- end }}
{{- if and .Values.ledger.url .Values.ledger.passwordSecret }}
- { name: recourse-database, mountPath: /run/secrets/recourse-database, readOnly: true }
{{- end }}
{{- range .Values.policySecrets }}
- { name: recourse-secret-{{ . }}, mountPath: /run/secrets/recourse/{{ . }}, readOnly: true }
{{- end }}
{{- range .Values.extraVolumes }}
- { name: recourse-extra-{{ .name }}, mountPath: {{ .mountPath }}, readOnly: true }
{{- end }}
{{- end }}

{{- /* A Secret as a volume: its group, which is Recourse's, may read it. */}}
{{- define "recourse.secretVolume" -}}
- name: {{ .volume }}
  secret: { secretName: {{ .secret }}, defaultMode: 0440 }
{{- end }}

{{- /* The pod's volumes. */}}
{{- define "recourse.volumes" -}}
{{ include "recourse.processVolumes" . }}
{{- if .Values.interception.enabled }}
{{- if .Values.interception.caSecret }}
{{ include "recourse.secretVolume" (dict "volume" "recourse-ca" "secret" .Values.interception.caSecret) }}
{{- else }}
- name: recourse-ca
  emptyDir: { medium: Memory, sizeLimit: 1Mi }
{{- end }}
- name: recourse-trust
  emptyDir: { sizeLimit: 16Mi }
{{- end }}
{{- end }}

{{- define "recourse.processVolumes" -}}
- name: recourse-policy
  configMap: { name: {{ include "recourse.policyConfigMap" . }} }
- name: recourse-no-token
  downwardAPI: { items: [] }
{{- if .Values.ledger.url }}
# Beside a ledger that is elsewhere: what any pod can do without.
- name: recourse-ledger
  emptyDir: { sizeLimit: 256Mi }
{{- else }}
{{- with .Values.store }}
{{- if eq .type "existingClaim" }}
- name: recourse-ledger
  persistentVolumeClaim: { claimName: {{ .existingClaim }} }
{{- else if ne .type "pvc" }}
- {{ include "recourse.podLedger" (dict "store" . "type" .type) | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.admin.tokenSecret }}
{{ include "recourse.secretVolume" (dict "volume" "recourse-admin" "secret" .) }}
{{- end }}
{{- with .Values.admin.operatorsSecret }}
{{ include "recourse.secretVolume" (dict "volume" "recourse-operators" "secret" .) }}
{{- end }}
{{- with .Values.ledgerKeySecret }}
{{ include "recourse.secretVolume" (dict "volume" "recourse-ledger-key" "secret" .) }}
{{- end }}
{{- with .Values.installSecret }}
{{ include "recourse.secretVolume" (dict "volume" "recourse-install" "secret" .) }}
{{- end }}
{{- if and .Values.ledger.url .Values.ledger.passwordSecret }}
{{ include "recourse.secretVolume" (dict "volume" "recourse-database" "secret" .Values.ledger.passwordSecret) }}
{{- end }}
{{- range .Values.policySecrets }}
{{ include "recourse.secretVolume" (dict "volume" (printf "recourse-secret-%s" .) "secret" .) }}
{{- end }}
{{- range .Values.extraVolumes }}
- name: recourse-extra-{{ .name }}
  {{- toYaml .volume | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A volume for the ledger that comes and goes with its pod: `store` as in the values, `type`. */}}
{{- define "recourse.podLedger" -}}
name: recourse-ledger
{{- if eq .type "emptyDir" }}
emptyDir: { sizeLimit: {{ .store.size }} }
{{- else }}
ephemeral:
  volumeClaimTemplate:
    spec:
      {{- include "recourse.claim" .store | nindent 6 }}
{{- end }}
{{- end }}

{{- /* spec of a claim, by the values of `store`. */}}
{{- define "recourse.claim" -}}
accessModes: [ {{ .accessMode }} ]
{{- with .storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: { storage: {{ .size }} }
{{- end }}

{{- /* volumeClaimTemplates of a StatefulSet; nothing unless store.type is pvc, and the ledger there. */}}
{{- define "recourse.volumeClaimTemplates" -}}
{{- if and (eq .Values.store.type "pvc") (not .Values.ledger.url) -}}
- metadata:
    name: recourse-ledger
  spec:
    {{- include "recourse.claim" .Values.store | nindent 4 }}
{{- end }}
{{- end }}
