import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** Lines of tab-separated fields in, one line ALLOWED or DENIED out for each question: what Kafka's authorizer decides. */
public class StandardAuthorizerAnswers {
    record Asked(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "L"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.SASL_PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 12; }
        public String clientId() { return "c"; }
        public int correlationId() { return 1; }
    }

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StandardAuthorizer authorizer = null;
        Map<Uuid, StandardAcl> rules = new HashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] f = line.split("\t", -1);
            switch (f[0]) {
                case "world" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of("node.id", "1", "super.users", f[1],
                        "allow.everyone.if.no.acl.found", f[2]));
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    rules = new HashMap<>();
                }
                case "rule" -> rules.put(Uuid.randomUuid(), new StandardAcl(ResourceType.valueOf(f[1]), f[2],
                    PatternType.valueOf(f[3]), f[4], f[5], AclOperation.valueOf(f[6]), AclPermissionType.valueOf(f[7])));
                case "ready" -> {
                    authorizer.loadSnapshot(rules);
                    authorizer.completeInitialLoad();
                }
                case "ask" -> {
                    var resource = new ResourcePattern(ResourceType.valueOf(f[4]), f[5], PatternType.LITERAL);
                    var action = new Action(AclOperation.valueOf(f[3]), resource, 1, false, false);
                    System.out.println(authorizer.authorize(asked(f), List.of(action)).get(0));
                }
                case "ask-type" -> {
                    AuthorizationResult result = authorizer.authorizeByResourceType(asked(f),
                        AclOperation.valueOf(f[3]), ResourceType.valueOf(f[4]));
                    System.out.println(result);
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static Asked asked(String[] f) throws Exception {
        return new Asked(SecurityUtils.parseKafkaPrincipal(f[1]), InetAddress.getByName(f[2]));
    }
}
